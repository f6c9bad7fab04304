// Puts a graph's nodes in a topological order.
#ifndef MILLRACE_GRAPH_NODE_ORDER_H_
#define MILLRACE_GRAPH_NODE_ORDER_H_

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace millrace {

// Reorders graph.nodes so that each stands after the producers of its inputs and the nodes it runs
// `after`, and renumbers what refers to nodes. Stable: an order that is topological already stays
// as it is. Returns the first 20 cycles found, each as the ids of its nodes in the direction of the data;
// with cycles the graph is left alone. O(nodes + uses), without recursion.
std::vector<std::vector<NodeId>> SortNodes(Graph& graph);

// Puts graph.nodes in the given topological order, which has each node once, and renumbers what
// refers to nodes.
void ReorderNodes(Graph& graph, std::span<const NodeId> order);

// "'a' -> 'b' -> 'a'"; the middle of a long cycle is left out.
std::string DescribeCycle(const Graph& graph, const std::vector<NodeId>& cycle);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_NODE_ORDER_H_
