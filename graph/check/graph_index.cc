#include "graph/check/graph_index.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/control_flow.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class Indexer {
 public:
  Indexer(const OpTraitsTable& traits, GraphIndex& index) : traits_(traits), index_(index) {}

  // Pre-order: a graph, then what is nested in its nodes. Depth is bounded by the graph verifier.
  void Add(const Graph& graph, int32_t parent, NodeId parent_node) {
    const int32_t g = static_cast<int32_t>(index_.graphs.size());
    GraphEntry entry{.graph = &graph,
                     .parent = parent,
                     .parent_node = parent_node,
                     .first_value = index_.num_values,
                     .first_node = static_cast<int32_t>(index_.nodes.size()),
                     .passed = {}};
    if (parent >= 0) entry.passed = PassedInputs(graph, parent, parent_node);
    const int32_t first_node = entry.first_node;
    index_.graphs.push_back(std::move(entry));
    index_.num_values += static_cast<int32_t>(graph.values.size());
    for (const Node& node : graph.nodes) AddNode(graph, node, g);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      AddNested(graph.nodes[n], g, NodeId(n), first_node + static_cast<int32_t>(n));
    }
  }

 private:
  std::vector<int32_t> PassedInputs(const Graph& graph, int32_t parent, NodeId parent_node) {
    std::vector<int32_t> passed(graph.values.size(), -1);
    const Node& node = index_.graphs[parent].graph->node(parent_node);
    const OpTraits* traits = TraitsOf(node.op);
    if (traits == nullptr) return passed;
    const absl::StatusOr<CallForm> form = FormOf(traits->control_flow, node);
    if (!form.ok()) return passed;  // a Call of it will say why
    const size_t count = std::min(form->inputs.size(), graph.inputs.size());
    for (size_t i = 0; i < count; ++i) {
      if (form->inputs[i].kind != PortKind::kSame) continue;
      passed[graph.inputs[i].index] = form->inputs[i].operand;
    }
    return passed;
  }

  void AddNode(const Graph& graph, const Node& node, int32_t g) {
    NodeEntry entry{.node = &node, .traits = TraitsOf(node.op), .graph = g};
    if (entry.traits != nullptr) {
      const CommKind comm = entry.traits->comm;
      entry.deterministic = entry.traits->deterministic && comm != CommKind::kTakeLatest;
      entry.has_effects = entry.traits->has_effects || comm == CommKind::kPublish;
    }
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (ValueId id : *list) entry.bounded |= id.valid() && graph.value(id).bounded;
    }
    index_.nodes.push_back(entry);
  }

  void AddNested(const Node& node, int32_t g, NodeId id, int32_t global) {
    if (node.subgraphs.empty()) return;
    const int32_t first = static_cast<int32_t>(index_.nested_indices.size());
    index_.nodes[global].first_nested = first;
    index_.nested_indices.resize(first + node.subgraphs.size());
    for (size_t k = 0; k < node.subgraphs.size(); ++k) {
      const int32_t nested = static_cast<int32_t>(index_.graphs.size());
      index_.nested_indices[first + k] = nested;
      Add(node.subgraphs[k].graph, g, id);
      const int32_t begin = index_.graphs[nested].first_node;
      const int32_t end = begin + static_cast<int32_t>(node.subgraphs[k].graph.nodes.size());
      for (int32_t n = begin; n < end; ++n) {
        index_.nodes[global].deterministic &= index_.nodes[n].deterministic;
        index_.nodes[global].has_effects |= index_.nodes[n].has_effects;
      }
    }
  }

  const OpTraits* TraitsOf(const std::string& op) {
    const auto [it, is_new] = known_.try_emplace(op, nullptr);
    if (is_new) {
      const auto found = traits_.find(op);
      if (found != traits_.end()) it->second = &found->second;
    }
    return it->second;
  }

  const OpTraitsTable& traits_;
  GraphIndex& index_;
  absl::flat_hash_map<std::string, const OpTraits*> known_;
};

}  // namespace

GraphIndex IndexGraphs(const Graph& graph, const OpTraitsTable& traits) {
  GraphIndex index;
  Indexer(traits, index).Add(graph, -1, NodeId());
  index.param_place.assign(graph.values.size(), -1);
  for (size_t i = 0; i < graph.params.size(); ++i) {
    index.param_place[graph.params[i].index] = static_cast<int32_t>(i);
  }
  index.update_of.assign(graph.values.size(), -1);
  for (size_t u = 0; u < graph.updates.size(); ++u) {
    index.update_of[graph.updates[u].param.index] = static_cast<int32_t>(u);
  }
  return index;
}

ValueRef GraphIndex::RefOf(int32_t global_value) const {
  const auto it =
      std::upper_bound(graphs.begin(), graphs.end(), global_value,
                       [](int32_t v, const GraphEntry& g) { return v < g.first_value; });
  const int32_t graph = static_cast<int32_t>(it - graphs.begin()) - 1;
  return {graph, ValueId(global_value - graphs[graph].first_value)};
}

bool CommAxes(const Node& node, const Mesh& mesh, std::vector<int>& axes) {
  axes.clear();
  const AttrValue* attr = node.attrs.Find("axis");
  if (attr == nullptr) return false;
  std::vector<std::string> names;
  if (const auto* one = std::get_if<std::string>(attr)) {
    names = {*one};
  } else if (const auto* list = std::get_if<std::vector<std::string>>(attr)) {
    names = *list;
  }
  for (const std::string& name : names) {
    const int axis = mesh.FindAxis(name);
    if (axis < 0) return false;
    axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return !axes.empty();
}

}  // namespace millrace
