// What a plan is expected to take on a machine, and what that is based on.
#ifndef MILLRACE_TOOLS_PREDICTION_H_
#define MILLRACE_TOOLS_PREDICTION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/cost_table.h"
#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "passes/price_plan.h"
#include "runtime/sim/simulate.h"
#include "tools/compile.h"

namespace millrace {

// The cost table that was named; else the one that lies beside the machine file ("m.json":
// "m.costs.json"), if there is one.
absl::StatusOr<std::optional<CostTable>> LoadCosts(const PlanningOptions& options);
// "m.json" -> "m.costs.json".
std::string CostsPathFor(const std::string& machine_path);

struct Prediction {
  // A step as Session::Run does it: the inputs are written, then the plan's step section runs.
  double step_us = 0;
  double inputs_us = 0;  // part of it
  double init_us = 0;    // the init section, once
  SimResult step;
  std::array<int64_t, 3> kernels_by_source{};  // by CostSource
};

// `plan` passed the checker and its graph passed inference.
absl::StatusOr<Prediction> Predict(const PlanBundle& plan, const MachineSpec& machine,
                                   const PriceOptions& options = {}, bool every_copy = false);

// A step's time and what it is based on, for people.
struct PredictedStep {
  double step_us = 0;  // 0: nothing could be said
  std::string basis;   // "12 kernels measured, 3 by roofline", or why nothing
};
// Whatever keeps the simulator from an answer is no error here. `machine_given`: the user named it.
PredictedStep PredictStep(const PlanBundle& plan, const MachineSpec& machine,
                          const std::optional<CostTable>& costs, bool machine_given);

// "12 kernels measured, 3 by roofline".
std::string SourcesText(const std::array<int64_t, 3>& kernels_by_source);

// Device memory: that of the device that the plan fills most.
struct MemoryFit {
  std::string device;
  int64_t needed_bytes = 0, memory_bytes = 0;
  bool fits() const { return needed_bytes <= memory_bytes; }
};
absl::StatusOr<MemoryFit> FitOf(const PlanBundle& plan, const MachineSpec& machine);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PREDICTION_H_
