#include "graph/target.h"

#include "graph/graph_json_parts.h"

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

void AppendTypes(std::string* to, const std::vector<std::optional<TensorType>>& types) {
  for (const std::optional<TensorType>& type : types) {
    to->append(type.has_value() ? ToString(*type) : "_");
    to->push_back(',');
  }
}

// Two queries are equal when their keys are: the order of a saved target's answers.
std::string KeyOf(const NodeQuery& query) {
  std::string key = query.op;
  AppendAttrs(&key, query.attrs);
  key.push_back('(');
  AppendTypes(&key, query.inputs);
  key.append(")->(");
  AppendTypes(&key, query.outputs);
  key.push_back(')');
  return key;
}

}  // namespace

NodeQuery QueryFor(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return {node.op, node.attrs, TypesOf(graph, node.inputs), TypesOf(graph, node.outputs)};
}

bool SavedTarget::Add(NodeQuery query, std::vector<KernelVariant> variants) {
  std::string key = KeyOf(query);
  return answers_.insert_or_assign(std::move(key), std::pair(std::move(query), std::move(variants)))
      .second;
}

std::vector<KernelVariant> SavedTarget::Variants(const NodeQuery& query) const {
  const auto found = answers_.find(KeyOf(query));
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
