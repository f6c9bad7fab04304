// From hints to a choice: every node gets the sharding rule that fits what is known of its operands
// at the least cost.
#ifndef MILLRACE_PASSES_PARALLEL_PROPAGATE_SHARDINGS_H_
#define MILLRACE_PASSES_PARALLEL_PROPAGATE_SHARDINGS_H_

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/parallel/reshard.h"
#include "passes/parallel/sharding_choice.h"
#include "passes/pass.h"

namespace millrace {

struct PropagateOptions {
  ReshardLinks links = {};
  // ZeRO: what steps carry over besides params (the optimizer's state) is cut over the axis `data`,
  // each device updates its part of a param. 1: gradients are summed whole; 2: each device gets the
  // sum of its part only.
  int zero = 0;
};

// `graph` is inferred, has a mesh and types of wholes; Graph::shardings are its hints. Inputs
// without one are cut along dim 0 over the axis `data`, if the mesh has it. UsageError: a hint that
// cannot be followed (a dim that is not cut evenly, a param asked to be partial, an input that
// `data` does not divide). What had to be replicated although an operand was cut is recorded.
absl::StatusOr<ShardingChoice> PropagateShardings(const Graph& graph,
                                                  const PropagateOptions& options,
                                                  std::vector<RewriteRecord>& records);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_PROPAGATE_SHARDINGS_H_
