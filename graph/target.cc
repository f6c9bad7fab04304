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

}  // namespace

NodeQuery QueryFor(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return {node.op, node.attrs, TypesOf(graph, node.inputs), TypesOf(graph, node.outputs)};
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
