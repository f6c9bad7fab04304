#include "graph/target.h"

#include "graph/query_key.h"

namespace millrace {
namespace {

std::vector<std::optional<TensorType>> TypesOf(const Graph& graph,
                                               const std::vector<ValueId>& values) {
  std::vector<std::optional<TensorType>> types;
  for (const ValueId id : values) {
    const bool known = id.valid() && graph.value(id).typed;
    types.push_back(known ? std::optional(graph.value(id).type) : std::nullopt);
  }
  return types;
}

// Constants with data of their own, of rank 0 or 1.
std::map<int, std::vector<int64_t>> KnownInputs(const Graph& graph, const Node& node) {
  std::map<int, std::vector<int64_t>> known;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (!id.valid() || graph.value(id).kind != ValueKind::kConstant) continue;
    const TensorType& type = graph.value(id).type;
    if (!IsInteger(type.dtype) || type.shape.rank() > 1) continue;
    if (NumElements(type.shape) > kMaxKnownElements) continue;
    const std::optional<Tensor> tensor = ConstantTensor(graph, id);
    if (!tensor.has_value()) continue;
    std::vector<int64_t>& elements = known[static_cast<int>(i)];
    for (int64_t e = 0; e < tensor->num_elements(); ++e) elements.push_back(tensor->AsInt64(e));
  }
  return known;
}

}  // namespace

NodeQuery QueryFor(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return {node.op, node.attrs, TypesOf(graph, node.inputs), TypesOf(graph, node.outputs),
          KnownInputs(graph, node)};
}

bool SavedTarget::Add(NodeQuery query, std::vector<KernelVariant> variants) {
  std::string key = QueryKey(query);
  return answers_.insert_or_assign(std::move(key), std::pair(std::move(query), std::move(variants)))
      .second;
}

std::vector<KernelVariant> SavedTarget::Variants(const NodeQuery& query) const {
  const auto found = answers_.find(QueryKey(query));
  return found == answers_.end() ? std::vector<KernelVariant>() : found->second.second;
}

SavedTarget SaveTarget(const Target& target, const Graph& graph) {
  SavedTarget saved{std::string(target.device_kind())};
  for (const Graph* g : FlattenGraphs(graph)) {
    for (size_t n = 0; n < g->nodes.size(); ++n) {
      NodeQuery query = QueryFor(*g, NodeId(n));
      std::vector<KernelVariant> variants = target.Variants(query);
      saved.Add(std::move(query), std::move(variants));
    }
  }
  return saved;
}

}  // namespace millrace
