// What a graph means, node after node by the ops' reference kernels: no plan, no memory, no device.
// The second opinion on whoever compiles and runs graphs.
#ifndef MILLRACE_OPS_EVALUATE_GRAPH_H_
#define MILLRACE_OPS_EVALUATE_GRAPH_H_

#include <functional>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// May change the operands of a node, of nested graphs too, before it is computed.
using OperandEdit = std::function<void(const Graph& graph, const Node& node, std::vector<Tensor>&)>;

// A node's results, control flow included. Operands without data are omitted.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Graph& graph, const Node& node,
                                                 const std::vector<Tensor>& inputs,
                                                 const OperandEdit& edit = {});

// The outputs of a typed graph; params hold their initial data.
absl::StatusOr<std::vector<Tensor>> EvaluateGraph(const Graph& graph,
                                                  const std::vector<Tensor>& inputs,
                                                  const OperandEdit& edit = {});

}  // namespace millrace

#endif  // MILLRACE_OPS_EVALUATE_GRAPH_H_
