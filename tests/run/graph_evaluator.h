// What a graph means, node after node by the ops' reference kernels: no plan, no memory, no device.
// The second opinion on whoever compiles and runs graphs.
#ifndef MILLRACE_TESTS_RUN_GRAPH_EVALUATOR_H_
#define MILLRACE_TESTS_RUN_GRAPH_EVALUATOR_H_

#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// A node's results, control flow included. Operands without data are omitted.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Graph& graph, const Node& node,
                                                 const std::vector<Tensor>& inputs);

// The outputs of a typed graph without params.
absl::StatusOr<std::vector<Tensor>> EvaluateGraph(const Graph& graph,
                                                  const std::vector<Tensor>& inputs);

}  // namespace millrace

#endif  // MILLRACE_TESTS_RUN_GRAPH_EVALUATOR_H_
