#include "passes/graph_edit.h"

#include <algorithm>
#include <map>

namespace millrace {

void ReplaceReads(Graph& graph, std::span<const ValueId> replacement) {
  const auto resolve = [&](ValueId v) {
    while (v.valid() && replacement[v.index] != v) v = replacement[v.index];
    return v;
  };
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs) input = resolve(input);
  }
  for (Update& update : graph.updates) update.value = resolve(update.value);
}

std::vector<ValueId> EachItself(const Graph& graph) {
  std::vector<ValueId> replacement(graph.values.size());
  for (size_t v = 0; v < replacement.size(); ++v) replacement[v] = ValueId(v);
  return replacement;
}

std::vector<uint8_t> OutputMask(const Graph& graph) {
  std::vector<uint8_t> mask(graph.values.size(), 0);
  for (ValueId output : graph.outputs) mask[output.index] = 1;
  return mask;
}

bool CanBecomeOutput(const Graph& graph, std::span<const uint8_t> is_output, ValueId value) {
  return graph.value(value).kind == ValueKind::kResult && is_output[value.index] == 0;
}

void TakeOverOutput(Graph& graph, ValueId from, ValueId to) {
  for (ValueId& output : graph.outputs) {
    if (output == from) output = to;
  }
  std::swap(graph.value(from).name, graph.value(to).name);
  // What was said of the output stays with it.
  if (auto sharding = graph.shardings.extract(from)) {
    graph.shardings.insert_or_assign(to, std::move(sharding.mapped()));
  }
  if (auto doc = graph.docs.extract(from)) {
    graph.docs.insert_or_assign(to, std::move(doc.mapped()));
  }
}

void AppendOrigin(const Node& node, std::vector<std::string>& origin) {
  if (node.origin.empty()) origin.push_back(node.name);
  origin.insert(origin.end(), node.origin.begin(), node.origin.end());
}

std::vector<uint8_t> AwaitedMask(const Graph& graph) {
  std::vector<uint8_t> mask(graph.nodes.size(), 0);
  for (const Node& node : graph.nodes) {
    for (NodeId before : node.after) mask[before.index] = 1;
  }
  return mask;
}

bool SameSharding(const Graph& graph, ValueId a, ValueId b) {
  const auto of_a = graph.shardings.find(a), of_b = graph.shardings.find(b);
  if (of_a == graph.shardings.end() || of_b == graph.shardings.end()) {
    return of_a == of_b;
  }
  return of_a->second == of_b->second;
}

namespace {

template <typename T>
void RenumberKeys(std::map<ValueId, T>& by_value, const std::vector<ValueId>& new_id) {
  std::map<ValueId, T> renumbered;
  for (auto& [id, fact] : by_value) {
    if (new_id[id.index].valid()) renumbered.emplace(new_id[id.index], std::move(fact));
  }
  by_value = std::move(renumbered);
}

// Keeps values for which keep[v] != 0, renumbers all references to them.
void RemoveValues(Graph& graph, const std::vector<uint8_t>& keep) {
  std::vector<ValueId> new_id(graph.values.size());
  size_t count = 0;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (keep[v] == 0) continue;
    new_id[v] = ValueId(count);
    if (count != v) graph.values[count] = std::move(graph.values[v]);
    ++count;
  }
  graph.values.resize(count);
  const auto renumber = [&](ValueId& v) {
    if (v.valid()) v = new_id[v.index];
  };
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    std::for_each(node.outputs.begin(), node.outputs.end(), renumber);
  }
  for (auto* list : {&graph.inputs, &graph.params, &graph.constants, &graph.outputs}) {
    std::for_each(list->begin(), list->end(), renumber);
  }
  for (Update& update : graph.updates) {
    renumber(update.param);
    renumber(update.value);
  }
  RenumberKeys(graph.symbolic_dims, new_id);
  RenumberKeys(graph.shardings, new_id);
  RenumberKeys(graph.docs, new_id);
}

}  // namespace

void RemoveNodes(Graph& graph, const std::vector<uint8_t>& keep) {
  std::vector<uint8_t> keep_value(graph.values.size(), 1);
  std::vector<NodeId> new_id(graph.nodes.size());
  std::vector<std::vector<NodeId>> after_of_removed(graph.nodes.size());
  size_t count = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    std::vector<NodeId> after;
    for (NodeId before : node.after) {
      if (keep[before.index] != 0) {
        after.push_back(new_id[before.index]);
      } else {
        const std::vector<NodeId>& earlier = after_of_removed[before.index];
        after.insert(after.end(), earlier.begin(), earlier.end());
      }
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (keep[n] == 0) {
      after_of_removed[n] = std::move(after);
      for (ValueId out : node.outputs) {
        if (out.valid()) keep_value[out.index] = 0;
      }
      continue;
    }
    node.after = std::move(after);
    new_id[n] = NodeId(count);
    for (ValueId out : node.outputs) {
      if (out.valid()) graph.value(out).producer = NodeId(count);
    }
    if (count != n) graph.nodes[count] = std::move(node);
    ++count;
  }
  graph.nodes.resize(count);
  RemoveValues(graph, keep_value);
}

void RemoveConstants(Graph& graph, const std::vector<uint8_t>& keep) {
  std::erase_if(graph.constants, [&](ValueId id) {
    if (keep[id.index] != 0) return false;
    graph.data[graph.value(id).data] = DataSource();
    return true;
  });
  RemoveValues(graph, keep);
}

}  // namespace millrace
