// Dead-node elimination: keeps what outputs, updates and nodes with effects need, walking nodes
// backwards once. Results that nobody reads of nodes that stay are kept too: a kernel may have to
// write them. O(nodes + uses).
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {

absl::StatusOr<bool> EliminateDeadNodes(Graph& graph, PassContext& context) {
  std::vector<uint8_t> needed(graph.values.size(), 0);
  for (ValueId output : graph.outputs) needed[output.index] = 1;
  for (const Update& update : graph.updates) needed[update.value.index] = 1;
  std::vector<uint8_t> keep(graph.nodes.size(), 0);
  bool changed = false;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const OpDef* op = FindOp(node.op);
    bool live = op == nullptr || op->traits.has_effects || op->traits.comm != CommKind::kNone;
    for (ValueId out : node.outputs) live |= out.valid() && needed[out.index] != 0;
    if (!live) {
      context.Applied("drop-dead", {node.name}, "removed: nobody reads its results");
      changed = true;
      continue;
    }
    keep[i] = 1;
    for (ValueId input : node.inputs) {
      if (input.valid()) needed[input.index] = 1;
    }
  }
  if (changed) RemoveNodes(graph, keep);
  return changed;
}

}  // namespace millrace
