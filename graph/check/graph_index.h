// GraphIndex: the bundle's graphs, values and nodes under dense global numbers, with what the
// checker must know of each node: its op's traits, and what follows from its nested graphs.
#ifndef MILLRACE_GRAPH_CHECK_GRAPH_INDEX_H_
#define MILLRACE_GRAPH_CHECK_GRAPH_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/op_traits.h"
#include "graph/plan.h"

namespace millrace {

struct GraphEntry {
  const Graph* graph = nullptr;
  int32_t parent = -1;  // graph of the node it is nested in
  NodeId parent_node;
  int32_t first_value = 0, first_node = 0;  // global numbers
  // By value: the input of `parent_node` that it is; -1 for those that are none, among them what a
  // loop gives its body anew in each trip.
  std::vector<int32_t> passed;
};

struct NodeEntry {
  const Node* node = nullptr;
  const OpTraits* traits = nullptr;  // null: unknown op
  int32_t graph = 0;
  int32_t first_nested = -1;  // graph index of its first nested graph; -1: none
  // Nested graphs included.
  bool deterministic = true;
  bool has_effects = false;
  bool bounded = false;  // an operand's size is known only at run time
};

struct GraphIndex {
  std::vector<GraphEntry> graphs;  // in the order of FlattenGraphs
  std::vector<NodeEntry> nodes;
  int32_t num_values = 0;
  std::vector<int32_t> param_place;     // graph 0: by value, its place among the params, or -1
  std::vector<int32_t> update_of;       // graph 0: by value that is an updated param, else -1
  std::vector<int32_t> nested_indices;  // children of nodes, from NodeEntry::first_nested on

  bool HasGraph(int32_t graph) const {
    return graph >= 0 && graph < static_cast<int32_t>(graphs.size());
  }
  int32_t GlobalValue(ValueRef ref) const {
    return graphs[ref.graph].first_value + ref.value.index;
  }
  int32_t GlobalNode(int32_t graph, NodeId node) const {
    return graphs[graph].first_node + node.index;
  }
  const Value& value(ValueRef ref) const { return graphs[ref.graph].graph->value(ref.value); }
  ValueRef RefOf(int32_t global_value) const;
  // Graph index of the k-th nested graph of a node.
  int32_t Nested(int32_t global_node, int k) const {
    return nested_indices[nodes[global_node].first_nested + k];
  }
};

// The graph is verified.
GraphIndex IndexGraphs(const Graph& graph, const OpTraitsTable& traits);

// Mesh axes a comm.* node names in attribute "axis" (a name or a list of names), ascending. Returns
// false when one does not exist or none is given.
bool CommAxes(const Node& node, const Mesh& mesh, std::vector<int>& axes);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_GRAPH_INDEX_H_
