// Steps as nodes. A node that runs again becomes another node with results of its own, marked, and
// whatever stands after it reads those. The nodes of init come first, then one node a step.
#include <string>

#include "absl/container/flat_hash_set.h"
#include "graph/json_text.h"
#include "graph/strings.h"
#include "passes/budget/graph_problem.h"
#include "passes/graph_edit.h"

namespace millrace {
namespace {

class NodeRepeater {
 public:
  NodeRepeater(const Graph& graph, const GraphProblem& problem)
      : given_(graph), newest_(EachItself(graph)), place_(graph.nodes.size()) {
    result_.graph = graph;
    result_.graph.nodes.clear();
    for (const Value& value : graph.values) value_names_.insert(value.name);
    for (const Node& node : graph.nodes) node_names_.insert(node.name);
    is_kept_.assign(graph.values.size(), 0);
    const BudgetProblem& p = problem.problem;
    const std::vector<int32_t> storage = StorageOfTensors(p);
    for (size_t t = 0; t < p.tensors.size(); ++t) {
      if (p.tensors[storage[t]].is_kept) is_kept_[problem.value_of_tensor[t].index] = 1;
    }
  }

  void Run(NodeId id) {
    if (place_[id.index].valid()) {
      Repeat(id);
      return;
    }
    place_[id.index] = NodeId(result_.graph.nodes.size());
    Node node = given_.node(id);
    ReadNewest(node);
    for (const ValueId out : node.outputs) {
      if (out.valid()) result_.graph.value(out).producer = place_[id.index];
    }
    Append(std::move(node), id);
  }

  RepeatedGraph Finish() {
    for (Node& node : result_.graph.nodes) {
      for (NodeId& before : node.after) before = place_[before.index];
    }
    return std::move(result_);
  }

 private:
  void ReadNewest(Node& node) const {
    for (ValueId& in : node.inputs) {
      if (in.valid()) in = newest_[in.index];
    }
  }

  void Append(Node node, NodeId source) {
    result_.graph.nodes.push_back(std::move(node));
    result_.source.push_back(source);
  }

  void Repeat(NodeId id) {
    const Node& first = given_.node(id);
    const NodeId place(result_.graph.nodes.size());
    Node node = first;
    node.origin.clear();
    AppendOrigin(first, node.origin);
    node.name = Unique(first.name, node_names_);
    if (!IsRepeat(first)) {
      node.extensions.push_back({std::string(kRepeatsKey), JsonString(first.name)});
    }
    ReadNewest(node);
    for (ValueId& out : node.outputs) {
      if (!out.valid()) continue;
      const ValueId again(result_.graph.values.size());
      Value value = result_.graph.value(out);
      value.name = Unique(value.name, value_names_);
      value.producer = place;
      result_.graph.values.push_back(std::move(value));
      if (is_kept_[out.index] == 0) newest_[out.index] = again;
      out = again;
    }
    Append(std::move(node), id);
  }

  static std::string Unique(std::string_view name, absl::flat_hash_set<std::string>& taken) {
    for (int count = 2;; ++count) {
      std::string candidate = StrCat(name, "#", count);
      if (taken.insert(candidate).second) return candidate;
    }
  }

  const Graph& given_;
  RepeatedGraph result_;
  std::vector<ValueId> newest_;  // by value of the given graph
  std::vector<NodeId> place_;    // by node of it
  std::vector<uint8_t> is_kept_;
  absl::flat_hash_set<std::string> node_names_, value_names_;
};

}  // namespace

bool IsRepeat(const Node& node) {
  for (const Extension& extension : node.extensions) {
    if (extension.key == kRepeatsKey) return true;
  }
  return false;
}

RepeatedGraph RepeatNodes(const Graph& graph, const GraphProblem& problem,
                          std::span<const int32_t> steps) {
  NodeRepeater repeater(graph, problem);
  std::vector<uint8_t> is_op(graph.nodes.size(), 0);
  for (const NodeId id : problem.node_of_op) is_op[id.index] = 1;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (is_op[n] == 0) repeater.Run(NodeId(n));
  }
  for (const int32_t op : steps) repeater.Run(problem.node_of_op[op]);
  return repeater.Finish();
}

}  // namespace millrace
