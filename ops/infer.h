// Type inference: gives every result its type by the ops' rules, checks operands and attributes
// against the ops' signatures, and normalizes attributes (ints to floats where the schema says so).
#ifndef MILLRACE_OPS_INFER_H_
#define MILLRACE_OPS_INFER_H_

#include "graph/diagnostics.h"
#include "graph/graph.h"
#include "graph/status.h"
#include "graph/target.h"

namespace millrace {

// In node order; nested graphs too (a body's input types come from its node). A result that was
// typed before must come out the same. Adds a diagnostic per fault (place, both types, nearest
// names) and goes on with what is known; results that depend on a fault stay untyped, silently.
void InferTypes(Graph& graph, Diagnostics& diagnostics);

// Same, as a Status; BadInputError.
absl::Status InferTypes(Graph& graph);

// Output types for one op with concrete inputs, e.g. when true sizes are known only at run time.
// `query.outputs` has an entry per output of the node, with any type where the output is wanted.
// `constants` may be empty, or one per input with data where known. Not for ops with nested graphs.
absl::StatusOr<std::vector<TensorType>> InferOutputs(const NodeQuery& query,
                                                     std::span<const Tensor> constants);

}  // namespace millrace

#endif  // MILLRACE_OPS_INFER_H_
