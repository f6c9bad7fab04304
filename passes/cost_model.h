// The cost model: how long a kernel takes on a device, and what of the device it keeps busy.
//
// What was measured (graph/cost_table.h) is taken as it is. Anything else is a roofline:
//   overhead + max(flops / peak, bytes / bandwidth),
// with peak and bandwidth scaled to the team's share of the device's threads, and to the rates that
// kernels of the same family and class were found to reach; without such rates, to the peak itself.
#ifndef MILLRACE_PASSES_COST_MODEL_H_
#define MILLRACE_PASSES_COST_MODEL_H_

#include <cstdint>
#include <string_view>

#include "graph/cost_table.h"
#include "graph/machine.h"
#include "graph/target.h"
#include "graph/task_cost.h"
#include "ops/op_def.h"

namespace millrace {

// "none", "elementwise", "reduction", "shape", "contraction": KernelRates::op_class.
std::string_view FusionClassName(FusionClass fusion);
std::string_view OpClass(std::string_view op);  // "none" for unknown ops

// Of the device's listed rates the one for `dtype`; else that of f32, for types no wider; else the
// lowest.
double PeakFlops(const DeviceSpec& device, DType dtype);

enum class CostSource : uint8_t { kMeasured, kFitted, kRoofline };
std::string_view CostSourceName(CostSource source);  // "measured", "fitted", "roofline"

struct KernelCost {
  TaskCost task;
  CostSource source = CostSource::kRoofline;
};

// What is known of a kind of device. Both may be null.
struct KnownCosts {
  const DeviceCosts* costs = nullptr;
  // The device that `costs` were measured on, when it is not quite the one asked about: times are
  // scaled as their rooflines are.
  const DeviceSpec* measured_on = nullptr;
};

// `variant` is one that a Target offered for the query: its name and its work are used, and its
// time where the table has none.
KernelCost CostOfKernel(const NodeQuery& query, const KernelVariant& variant, int threads,
                        const DeviceSpec& device, const KnownCosts& known = {});

// The same for a variant known by name, with the work that the op declares.
KernelCost CostOfKernel(const NodeQuery& query, std::string_view variant, int threads,
                        const DeviceSpec& device, const KnownCosts& known = {});

// The parts of a roofline, in microseconds on a device at its peak.
struct Roofline {
  double compute_us = 0;
  double memory_us = 0;
};
Roofline RooflineOf(const NodeQuery& query, double flops, double bytes, int threads,
                    const DeviceSpec& device);

}  // namespace millrace

#endif  // MILLRACE_PASSES_COST_MODEL_H_
