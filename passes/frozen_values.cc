#include "passes/frozen_values.h"

#include <algorithm>

#include "ops/op_def.h"

namespace millrace {
namespace {

constexpr int64_t kLittleBytes = 64 << 10;

// Leaves that no step changes.
std::vector<uint8_t> FrozenLeaves(const Graph& graph) {
  std::vector<uint8_t> frozen(graph.values.size(), 0);
  for (const auto* list : {&graph.params, &graph.constants}) {
    for (ValueId id : *list) frozen[id.index] = 1;
  }
  for (const Update& update : graph.updates) frozen[update.param.index] = 0;
  return frozen;
}

bool IsPure(const Node& node) {
  const OpDef* op = FindOp(node.op);
  if (op == nullptr) return false;
  const OpTraits& traits = op->traits;
  return traits.control_flow == ControlFlow::kNone && traits.comm == CommKind::kNone &&
         !traits.host_call && !traits.has_effects && traits.deterministic && node.after.empty();
}

// Whether all that a node reads and gives is of known size, and what it reads is in `mask`.
bool ReadsOnly(const Graph& graph, const Node& node, const std::vector<uint8_t>& mask) {
  const auto is_sized = [&](ValueId id) { return !id.valid() || !graph.value(id).bounded; };
  const auto is_read = [&](ValueId id) { return !id.valid() || mask[id.index] != 0; };
  return std::ranges::all_of(node.inputs, is_read) && std::ranges::all_of(node.inputs, is_sized) &&
         std::ranges::all_of(node.outputs, is_sized);
}

int64_t BytesOf(const Graph& graph, const std::vector<ValueId>& ids) {
  int64_t bytes = 0;
  for (ValueId id : ids) {
    if (id.valid()) bytes += ByteSize(graph.value(id).type);
  }
  return bytes;
}

void MarkResults(const Node& node, std::vector<uint8_t>& mask) {
  for (ValueId out : node.outputs) {
    if (out.valid()) mask[out.index] = 1;
  }
}

}  // namespace

std::vector<uint8_t> FrozenValues(const Graph& graph) {
  std::vector<uint8_t> frozen = FrozenLeaves(graph);
  for (const Node& node : graph.nodes) {
    if (IsPure(node) && ReadsOnly(graph, node, frozen)) MarkResults(node, frozen);
  }
  return frozen;
}

std::vector<uint8_t> NodesForInit(const Graph& graph) {
  std::vector<uint8_t> there = FrozenLeaves(graph), in_init(graph.nodes.size(), 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!IsPure(node) || !ReadsOnly(graph, node, there)) continue;
    const int64_t results = BytesOf(graph, node.outputs);
    if (results > kLittleBytes && results > BytesOf(graph, node.inputs)) continue;
    in_init[n] = 1;
    MarkResults(node, there);
  }
  return in_init;
}

}  // namespace millrace
