// A graph as a budget problem, and steps of that problem as a graph.
#ifndef MILLRACE_PASSES_BUDGET_GRAPH_PROBLEM_H_
#define MILLRACE_PASSES_BUDGET_GRAPH_PROBLEM_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/budget/budget_problem.h"

namespace millrace {

// What a node's kernel takes.
struct NodeCost {
  double time_us = 0;
  int64_t workspace_bytes = 0;  // scratch; with bodies: all that they need
};

struct GraphProblem {
  BudgetProblem problem;
  std::vector<NodeId> node_of_op;  // nodes of init are in no step
  std::vector<ValueId> value_of_tensor;
};

// `costs` by node of the outermost graph. Operations stand in graph order. Params, constants and
// what is computed in init are always there. The new version of a param takes no bytes where its
// node writes it over the old one, which no later node reads.
GraphProblem BudgetProblemOf(const Graph& graph, std::span<const NodeCost> costs);

// Orders of the graph's nodes to plan from, each with its nodes in that order, different from the
// given one: updates as soon as what they take is there, and with little live at once.
enum class BudgetOrder : uint8_t { kGiven, kEagerUpdates, kLeastLive };
std::string_view BudgetOrderName(BudgetOrder order);  // "as given", ...
std::vector<NodeId> OrderNodes(const Graph& graph, const GraphProblem& problem, BudgetOrder order);

// The key of the extension that marks a node which repeats another; its value is the other's name,
// a JSON string. Rewrites never make one node of the two.
inline constexpr std::string_view kRepeatsKey = "x-repeats";
bool IsRepeat(const Node& node);

// The graph whose nodes run as `steps` say, in that order, each repeat a node of its own.
struct RepeatedGraph {
  Graph graph;
  std::vector<NodeId> source;  // by node: the one of the given graph that it is or repeats
};
RepeatedGraph RepeatNodes(const Graph& graph, const GraphProblem& problem,
                          std::span<const int32_t> steps);

}  // namespace millrace

#endif  // MILLRACE_PASSES_BUDGET_GRAPH_PROBLEM_H_
