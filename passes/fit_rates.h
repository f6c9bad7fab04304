// Learns from measured kernels how others like them will do: for each family of variants and class
// of ops the fractions of the device's peak rates they reach.
#ifndef MILLRACE_PASSES_FIT_RATES_H_
#define MILLRACE_PASSES_FIT_RATES_H_

#include <vector>

#include "graph/cost_table.h"
#include "graph/machine.h"

namespace millrace {

// From all of `costs.kernels`: rates of each (family, class, threads), then of each (family,
// class), then of each class over all families; what cost_model.h looks up, in its order.
// Deterministic.
std::vector<KernelRates> FitRates(const DeviceCosts& costs, const DeviceSpec& device);

}  // namespace millrace

#endif  // MILLRACE_PASSES_FIT_RATES_H_
