// Identity elimination: readers of Identity(x) read x. An Identity whose result is a graph output
// stays when dropping it would make the output a value that stands for something else already: a
// graph input, param or constant, or another output; otherwise the producer of x takes over the
// output's place and name.
#include "graph/strings.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

bool IsOutput(const Graph& graph, ValueId value) {
  for (ValueId output : graph.outputs) {
    if (output == value) return true;
  }
  return false;
}

// Makes `to` the graph output that `from` was, under the same name.
void TakeOverOutput(Graph& graph, ValueId from, ValueId to) {
  for (ValueId& output : graph.outputs) {
    if (output == from) output = to;
  }
  std::swap(graph.value(from).name, graph.value(to).name);
}

}  // namespace

absl::StatusOr<bool> EliminateIdentity(Graph& graph, PassContext& context) {
  std::vector<ValueId> replacement(graph.values.size());
  for (size_t v = 0; v < replacement.size(); ++v) replacement[v] = ValueId(v);
  std::vector<uint8_t> keep(graph.nodes.size(), 1);
  bool changed = false;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op != "Identity" || !node.outputs[0].valid()) continue;
    const ValueId out = node.outputs[0];
    ValueId in = node.inputs[0];
    while (replacement[in.index] != in) in = replacement[in.index];
    if (IsOutput(graph, out)) {
      if (graph.value(in).kind != ValueKind::kResult || IsOutput(graph, in)) {
        context.Refused(
            "drop-identity", {node.name},
            StrCat("graph output '", graph.value(out).name, "' needs a value of its own"));
        continue;
      }
      context.Applied("drop-identity", {node.name},
                      StrCat("node '", graph.node(graph.value(in).producer).name,
                             "' now gives output '", graph.value(out).name, "'"));
      TakeOverOutput(graph, out, in);
    } else {
      context.Applied("drop-identity", {node.name},
                      StrCat("readers now read '", graph.value(in).name, "'"));
    }
    replacement[out.index] = in;
    keep[n] = 0;
    changed = true;
  }
  if (!changed) return false;
  ReplaceReads(graph, replacement);
  RemoveNodes(graph, keep);
  return true;
}

}  // namespace millrace
