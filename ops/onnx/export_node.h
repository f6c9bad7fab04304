// Nodes on their way out: what is an attribute, an operand, a name in ONNX.
#ifndef MILLRACE_OPS_ONNX_EXPORT_NODE_H_
#define MILLRACE_OPS_ONNX_EXPORT_NODE_H_

#include <cstdint>
#include <set>
#include <string>

#include "graph/graph.h"
#include "graph/status.h"
#include "ops/onnx/proto.h"

namespace millrace {

// The oldest opset from 17 on that has all ops of the graph and the graphs nested in it.
int64_t OpsetNeeded(const Graph& graph);

// Name, op, domain and attributes of `node` of `from`, in the spelling of `opset`. Operands were
// added before; those that an attribute becomes are added to `proto` and, as constants, to `graph`;
// `names` are taken.
void FillNodeProto(const Graph& from, const Node& node, int64_t opset, std::set<std::string>& names,
                   onnx::NodeProto& proto, onnx::GraphProto& graph);

// `name`, or with a number after it if it is one of `names`; it is one afterwards.
std::string UniqueValueName(const std::string& name, std::set<std::string>& names);

// "" for ONNX's own ops, "millrace.grad" for grad.Gather.
std::string OnnxDomainOf(const std::string& op);

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_EXPORT_NODE_H_
