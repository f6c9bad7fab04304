// CostTable: what kernels were measured to take, by device, and what was learned from that about
// kernels like them. It is the only way in which measurements come back to planners and the
// simulator: as a file, "millrace-costs" 1.0, which `millrace profile` writes.
#ifndef MILLRACE_GRAPH_COST_TABLE_H_
#define MILLRACE_GRAPH_COST_TABLE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"

namespace millrace {

// One kernel, as a Launch names it.
struct KernelKey {
  std::string query;    // QueryKey
  std::string variant;  // "onednn:avx512_core"
  int threads = 1;      // of the team
  auto operator<=>(const KernelKey&) const = default;
};

struct MeasuredKernel {
  double time_us = 0;           // one run, without the run loop's own time
  double flops = 0, bytes = 0;  // the work the op declares
};

// How kernels alike compare with the device's peak rates: one run takes
//   overhead_us + max(flops / (compute * peak), bytes / (memory * bandwidth)).
// Fitted to measurements (passes/fit_rates.h) or written by hand for a device one does not own.
struct KernelRates {
  std::string family = {};    // of variants, the name before ':'; "": any
  std::string op_class = {};  // "contraction", "elementwise", ...; "": any
  int threads = 0;            // 0: any
  double compute = 1;         // fractions of peak; above 1 when caches or a low peak make it so
  double memory = 1;
  double overhead_us = 0;
  int64_t samples = 0;      // fitted to so many kernels; 0: by hand
  double median_error = 0;  // of the fit on them, relative
};

struct DeviceCosts {
  std::map<KernelKey, MeasuredKernel> kernels;
  std::vector<KernelRates> rates;  // the more specific first; of those that apply the first holds
};

struct CostTable {
  std::string machine;                                      // name of the MachineSpec, for people
  std::map<std::string, DeviceCosts, std::less<>> devices;  // by DeviceSpec name

  const DeviceCosts* FindDevice(std::string_view device) const;  // nullptr: nothing known
};

// "onednn" of "onednn:avx512_core".
std::string_view VariantFamily(std::string_view variant);

// Errors name the place: times and fractions that are no positive numbers, a kernel measured twice.
absl::StatusOr<CostTable> ParseCostTable(std::string_view json, std::string_view file);
absl::StatusOr<CostTable> LoadCostTable(const std::string& path);
std::string CostTableToJson(const CostTable& table);  // same table, same bytes

}  // namespace millrace

#endif  // MILLRACE_GRAPH_COST_TABLE_H_
