// From a graph and a choice to the graph of one device: local types, and comm.* nodes where parts
// have to move.
#ifndef MILLRACE_PASSES_PARALLEL_LOWER_SHARDINGS_H_
#define MILLRACE_PASSES_PARALLEL_LOWER_SHARDINGS_H_

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/parallel/reshard.h"
#include "passes/parallel/sharding_choice.h"

namespace millrace {

// `graph` is inferred and has types of wholes; the result is inferred, verified and has
// local_types. UsageError: a choice that cannot be carried out (dims that are not cut evenly).
// Values that follow from types alone (Shape, and what is computed from it) become constants, and
// operands that state a shape are restated. Partial sums are summed right after they come to be;
// all else moves right before it is read.
absl::StatusOr<Graph> LowerShardings(const Graph& graph, const ShardingChoice& choice,
                                     const ReshardLinks& links = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_LOWER_SHARDINGS_H_
