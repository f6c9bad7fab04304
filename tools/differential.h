// The optimized plan of a graph against what the graph means (ops/evaluate_graph.h).
#ifndef MILLRACE_TOOLS_DIFFERENTIAL_H_
#define MILLRACE_TOOLS_DIFFERENTIAL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// Whether every implementation gives this node's results to the last bit: integers, moved elements,
// and arithmetic that is rounded once. What is left reassociates sums, or approximates functions.
bool IsExact(const Graph& graph, const Node& node);

// Whether a kernel may round this value otherwise than the reference does: it comes of a node that
// is not exact. By value.
std::vector<bool> MayDiffer(const Graph& graph);

// Elements for each input of `graph`: those of `given` that have its type, else drawn by seed and
// name: floats in [-2, 2), integers in [0, 3).
std::map<std::string, Tensor> InputsFor(const Graph& graph,
                                        const std::map<std::string, Tensor>& given, uint64_t seed);

// Runs `graph` (inferred) on cpu:0, and by its reference; "" when they agree, what differs if not.
// Outputs that may not differ agree when each element is equal (as numbers; NaN is NaN). Others
// may be off by as much as noise of a few units in the last place, at the operands of every node
// that is not exact, moves them, and by four units in the last place, of 1 at least. What both
// refuse agrees. `inputs` are completed as InputsFor does.
std::string FindMismatch(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                         uint64_t seed = 1);

// The comparison alone: `actual` are the outputs that someone got from exactly these inputs.
std::string CompareWithMeaning(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                               const absl::StatusOr<std::vector<Tensor>>& actual);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_DIFFERENTIAL_H_
