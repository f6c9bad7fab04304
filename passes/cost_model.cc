#include "passes/cost_model.h"

#include <algorithm>

#include "graph/query_key.h"

namespace millrace {
namespace {

// The type a kernel computes in: that of its first float operand, else of its first one.
DType ComputeType(const NodeQuery& query) {
  std::optional<DType> first;
  for (const auto* operands : {&query.inputs, &query.outputs}) {
    for (const std::optional<TensorType>& type : *operands) {
      if (!type.has_value()) continue;
      if (IsFloat(type->dtype)) return type->dtype;
      if (!first.has_value()) first = type->dtype;
    }
  }
  return first.value_or(DType::kF32);
}

// The part of the device that a team of `threads` is.
double TeamShare(const DeviceSpec& device, int threads) {
  return device.kind == "cpu" ? static_cast<double>(std::min(threads, device.threads)) /
                                    static_cast<double>(device.threads)
                              : 1;
}

const KernelRates* FindRates(const DeviceCosts* costs, std::string_view family,
                             std::string_view op_class, int threads) {
  if (costs == nullptr) return nullptr;
  for (const KernelRates& rates : costs->rates) {
    if (!rates.family.empty() && rates.family != family) continue;
    if (!rates.op_class.empty() && rates.op_class != op_class) continue;
    if (rates.threads == 0 || rates.threads == threads) return &rates;
  }
  return nullptr;
}

// What the model says of a kernel on one device.
struct Estimate {
  double overhead_us = 0;
  Roofline roofline;  // at the rates such kernels reach
  double time_us() const { return overhead_us + std::max(roofline.compute_us, roofline.memory_us); }
};

Estimate EstimateOn(const DeviceSpec& device, const NodeQuery& query, const KernelVariant& variant,
                    int threads, const KernelRates* rates) {
  Estimate estimate;
  estimate.roofline = RooflineOf(query, variant.flops, variant.bytes, threads, device);
  if (rates == nullptr) return estimate;
  estimate.overhead_us = rates->overhead_us;
  estimate.roofline.compute_us /= rates->compute;
  estimate.roofline.memory_us /= rates->memory;
  return estimate;
}

// Of the memory's rate. A kernel that moves its bytes faster than memory could finds some in a
// cache, all of them at twice the rate.
double MemoryUse(double bytes, double time_us, const DeviceSpec& device) {
  const double ratio = bytes / device.memory_bandwidth * 1e6 / time_us;
  return ratio <= 1 ? ratio : std::max(0.0, 2 - ratio);
}

void SetUse(const Estimate& estimate, const KernelVariant& variant, int threads,
            const DeviceSpec& device, TaskCost* task) {
  if (task->time_us <= 0) return;
  const Roofline& roofline = estimate.roofline;
  const double compute = device.kind == "cpu" ? TeamShare(device, threads)
                                              : std::min(1.0, roofline.compute_us / task->time_us);
  (*task)[Resource::kCompute] = static_cast<float>(compute);
  (*task)[Resource::kMemory] = static_cast<float>(MemoryUse(variant.bytes, task->time_us, device));
  if (2 * estimate.overhead_us > estimate.time_us()) return;  // fixed costs
  const double most = std::max(roofline.compute_us, roofline.memory_us);
  if (most <= 0) return;
  task->limit = roofline.compute_us == most ? Resource::kCompute : Resource::kMemory;
}

}  // namespace

std::string_view FusionClassName(FusionClass fusion) {
  switch (fusion) {
    case FusionClass::kNone:
      return "none";
    case FusionClass::kElementwise:
      return "elementwise";
    case FusionClass::kReduction:
      return "reduction";
    case FusionClass::kShape:
      return "shape";
    case FusionClass::kContraction:
      return "contraction";
  }
  return "?";
}

std::string_view OpClass(std::string_view op) {
  const OpDef* def = FindOp(op);
  return FusionClassName(def == nullptr ? FusionClass::kNone : def->fusion);
}

std::string_view CostSourceName(CostSource source) {
  constexpr std::string_view kNames[] = {"measured", "fitted", "roofline"};
  return kNames[static_cast<int>(source)];
}

double PeakFlops(const DeviceSpec& device, DType dtype) {
  const auto& rates = device.peak_flops;
  if (const auto own = rates.find(dtype); own != rates.end()) return own->second;
  const auto f32 = rates.find(DType::kF32);
  if (f32 != rates.end() && SizeOf(dtype) <= SizeOf(DType::kF32)) return f32->second;
  double lowest = 0;
  for (const auto& [unused, rate] : rates) lowest = lowest == 0 ? rate : std::min(lowest, rate);
  return lowest;
}

Roofline RooflineOf(const NodeQuery& query, double flops, double bytes, int threads,
                    const DeviceSpec& device) {
  const double share = TeamShare(device, threads);
  const double peak = PeakFlops(device, ComputeType(query));
  return {.compute_us = peak > 0 ? flops / (peak * share) * 1e6 : 0,
          .memory_us = bytes / (device.memory_bandwidth * share) * 1e6};
}

KernelCost CostOfKernel(const NodeQuery& query, const KernelVariant& variant, int threads,
                        const DeviceSpec& device, const KnownCosts& known) {
  const KernelRates* rates =
      FindRates(known.costs, VariantFamily(variant.name), OpClass(query.op), threads);
  const Estimate estimate = EstimateOn(device, query, variant, threads, rates);
  KernelCost cost;
  double measured_us = variant.time_us;
  if (known.costs != nullptr) {
    const auto found = known.costs->kernels.find({QueryKey(query), variant.name, threads});
    if (found != known.costs->kernels.end()) measured_us = found->second.time_us;
  }
  if (measured_us > 0) {
    cost.source = CostSource::kMeasured;
    cost.task.time_us = measured_us;
    if (known.measured_on != nullptr) {
      const double there = EstimateOn(*known.measured_on, query, variant, threads, rates).time_us();
      if (there > 0) cost.task.time_us *= estimate.time_us() / there;
    }
  } else {
    cost.source = rates != nullptr ? CostSource::kFitted : CostSource::kRoofline;
    cost.task.time_us = estimate.time_us();
  }
  SetUse(estimate, variant, threads, device, &cost.task);
  return cost;
}

KernelCost CostOfKernel(const NodeQuery& query, std::string_view variant, int threads,
                        const DeviceSpec& device, const KnownCosts& known) {
  const Work work = WorkOf(query);
  KernelVariant named;
  named.name = std::string(variant);
  named.flops = work.flops;
  named.bytes = work.bytes;
  return CostOfKernel(query, named, threads, device, known);
}

}  // namespace millrace
