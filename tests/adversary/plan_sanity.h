// What must hold of a plan, right or wrong, for running it to touch only memory that is there: a
// floor under the adversary, not a check of the plan.
#ifndef MILLRACE_TESTS_ADVERSARY_PLAN_SANITY_H_
#define MILLRACE_TESTS_ADVERSARY_PLAN_SANITY_H_

#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// Ids are in range; operands are as many as the node's; slices of values hold them, dense or
// strided, and lie in their buffers for all microbatches and coordinates. InternalError naming what
// is not so.
absl::Status CheckSanity(const PlanBundle& plan);

// "cpu:0", ..., each once, sorted.
absl::StatusOr<std::vector<std::string>> DeviceNamesOf(const PlanBundle& plan);

absl::StatusOr<ValueId> ValueNamed(const Graph& graph, std::string_view name);

// Tensors one after another along dim 0; those of rank 0 as [m]; a single one as it is.
// InternalError when they differ in other dims.
absl::StatusOr<Tensor> StackTensors(const std::vector<Tensor>& parts);

}  // namespace millrace

#endif  // MILLRACE_TESTS_ADVERSARY_PLAN_SANITY_H_
