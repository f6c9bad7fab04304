// Depth-first search from each node in the given order, against the direction of the data: a node
// is placed once all it waits for is placed, so a node that is early already is placed when it is
// reached. A node met again while it is still waiting closes a cycle, which is the part of the
// search's path from there on.
#include "graph/node_order.h"

#include <algorithm>
#include <utility>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kMaxCycles = 20;  // reported: each may be as long as the graph

// What node `id` waits for, numbered from 0: producers of its inputs, then `after`. Invalid: that
// one is no node. `edge` past the end: nullopt.
std::optional<NodeId> WaitsFor(const Graph& graph, NodeId id, size_t edge) {
  const Node& node = graph.node(id);
  if (edge < node.inputs.size()) {
    const ValueId input = node.inputs[edge];
    return input.valid() ? graph.value(input).producer : NodeId();
  }
  edge -= node.inputs.size();
  if (edge < node.after.size()) return node.after[edge];
  return std::nullopt;
}

class NodeSorter {
 public:
  explicit NodeSorter(const Graph& graph) : graph_(graph), states_(graph.nodes.size()) {
    order_.reserve(graph.nodes.size());
  }

  void Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Visit(NodeId(n));
  }
  const std::vector<NodeId>& order() const { return order_; }
  std::vector<std::vector<NodeId>>& cycles() { return cycles_; }

 private:
  enum class State : uint8_t { kNew, kWaiting, kPlaced };
  struct Step {
    NodeId node;
    size_t next_edge = 0;
  };

  void Enter(NodeId node) {
    states_[node.index] = State::kWaiting;
    path_.push_back({node});
  }

  void Visit(NodeId start) {
    if (states_[start.index] != State::kNew) return;
    Enter(start);
    while (!path_.empty()) {
      Step& step = path_.back();
      const std::optional<NodeId> before = WaitsFor(graph_, step.node, step.next_edge++);
      if (!before.has_value()) {
        states_[step.node.index] = State::kPlaced;
        order_.push_back(step.node);
        path_.pop_back();
      } else if (before->valid() && states_[before->index] == State::kNew) {
        Enter(*before);
      } else if (before->valid() && states_[before->index] == State::kWaiting) {
        CloseCycle(*before);
      }
    }
  }

  void CloseCycle(NodeId met) {
    if (cycles_.size() == kMaxCycles) return;
    std::vector<NodeId>& cycle = cycles_.emplace_back();
    for (size_t i = path_.size(); i-- > 0;) {
      cycle.push_back(path_[i].node);
      if (path_[i].node == met) break;
    }
  }

  const Graph& graph_;
  std::vector<State> states_;
  std::vector<Step> path_;
  std::vector<NodeId> order_;
  std::vector<std::vector<NodeId>> cycles_;
};

}  // namespace

std::vector<std::vector<NodeId>> SortNodes(Graph& graph) {
  NodeSorter sorter(graph);
  sorter.Run();
  const std::vector<NodeId>& order = sorter.order();
  if (!sorter.cycles().empty() || std::is_sorted(order.begin(), order.end())) {
    return std::move(sorter.cycles());
  }
  ReorderNodes(graph, order);
  return {};
}

void ReorderNodes(Graph& graph, std::span<const NodeId> order) {
  std::vector<NodeId> renumbered(order.size());
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const NodeId old : order) {
    renumbered[old.index] = NodeId(nodes.size());
    nodes.push_back(std::move(graph.node(old)));
  }
  graph.nodes = std::move(nodes);
  for (Node& node : graph.nodes) {
    for (NodeId& before : node.after) before = renumbered[before.index];
  }
  for (Value& value : graph.values) {
    if (value.producer.valid()) value.producer = renumbered[value.producer.index];
  }
}

std::string DescribeCycle(const Graph& graph, const std::vector<NodeId>& cycle) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > kShown && i == kShown / 2) {
      const size_t left_out = cycle.size() - kShown;
      StrAppend(&text, "(", left_out, " more) -> ");
      i += left_out;
    }
    StrAppend(&text, "'", graph.node(cycle[i]).name, "' -> ");
  }
  return text.empty() ? text : StrCat(text, "'", graph.node(cycle[0]).name, "'");
}

}  // namespace millrace
