// What a plan must compute, found without running it: the embedded graph evaluated node by node
// with the ops' reference kernels, in the order that gives each read of a param its version. Looks
// at a plan's segments and schedules (which nodes, which microbatch, when an update takes effect),
// never at buffers, slices, streams or events.
#ifndef MILLRACE_TESTS_PLAN_REFERENCE_RUN_H_
#define MILLRACE_TESTS_PLAN_REFERENCE_RUN_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/plan.h"
#include "graph/tensor.h"

namespace millrace {

class ReferenceRun {
 public:
  // Loads params and constants and runs the init section. The plan outlives it. Aborts on whatever
  // a checked plan cannot have.
  explicit ReferenceRun(const PlanBundle& plan);

  // One step. Inputs by name, all microbatches stacked.
  void Step(const std::map<std::string, Tensor>& inputs);

  Tensor Output(std::string_view name) const;  // stacked
  Tensor Param(std::string_view name) const;

 private:
  using Instance = std::pair<ValueId, int32_t>;  // a value in one microbatch
  static constexpr int32_t kEveryMicrobatch = -1;

  void RunSection(Section section);
  bool TryRun(const Segment& segment, int32_t microbatch, bool init);
  const Tensor* Find(ValueId value, int32_t microbatch) const;

  const PlanBundle& plan_;
  std::map<ValueId, Tensor> params_;   // newest versions
  std::map<Instance, Tensor> loaded_;  // constants, and what init computed: of kEveryMicrobatch
  std::map<Instance, Tensor> step_values_;  // inputs and results of the last step
};

// Tensors along dim 0, one after another; other dims equal.
Tensor Stack(const std::vector<Tensor>& tensors);

}  // namespace millrace

#endif  // MILLRACE_TESTS_PLAN_REFERENCE_RUN_H_
