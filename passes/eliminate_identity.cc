// Identity elimination: readers of a node that changes nothing (copied_value.h says which) read
// what it copies. A node whose result is a graph output stays when dropping it would make the
// output a value that stands for something else already: a graph input, param or constant, or
// another output; otherwise the producer of what is copied takes over the output's place and name.
#include "absl/strings/ascii.h"
#include "graph/strings.h"
#include "passes/copied_value.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

bool EliminateIn(Graph& graph, PassContext& context) {
  bool changed = false;
  std::vector<ValueId> replacement = EachItself(graph);
  std::vector<uint8_t> keep(graph.nodes.size(), 1);
  std::vector<uint8_t> is_output = OutputMask(graph);
  bool drops = false;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    for (Subgraph& body : node.subgraphs) changed |= EliminateIn(body.graph, context);
    for (ValueId& input : node.inputs) {
      if (input.valid()) input = replacement[input.index];
    }
    const ValueId from = CopiedValue(graph, node);
    if (!from.valid()) continue;
    const ValueId out = node.outputs[0];
    const std::string rule = StrCat("drop-", absl::AsciiStrToLower(node.op));
    if (!SameSharding(graph, out, from)) {
      context.Refused(rule, {node.name}, "its result asks for a sharding of its own");
      continue;
    }
    if (is_output[out.index] == 0) {
      context.Applied(rule, {node.name}, StrCat("readers now read '", graph.value(from).name, "'"));
    } else if (CanBecomeOutput(graph, is_output, from)) {
      context.Applied(rule, {node.name},
                      StrCat("node '", graph.node(graph.value(from).producer).name,
                             "' now gives output '", graph.value(out).name, "'"));
      TakeOverOutput(graph, out, from);
      is_output[from.index] = 1;
    } else {
      context.Refused(
          rule, {node.name},
          StrCat("graph output '", graph.value(out).name, "' needs a value of its own"));
      continue;
    }
    replacement[out.index] = from;
    keep[n] = 0;
    drops = true;
  }
  if (!drops) return changed;
  ReplaceReads(graph, replacement);
  RemoveNodes(graph, keep);
  return true;
}

}  // namespace

absl::StatusOr<bool> EliminateIdentity(Graph& graph, PassContext& context) {
  return EliminateIn(graph, context);
}

}  // namespace millrace
