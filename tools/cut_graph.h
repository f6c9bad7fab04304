// The part of a graph that some of its outputs need, with values cut loose from what made them.
#ifndef MILLRACE_TOOLS_CUT_GRAPH_H_
#define MILLRACE_TOOLS_CUT_GRAPH_H_

#include <map>

#include "graph/graph.h"

namespace millrace {

struct GraphCut {
  std::vector<ValueId> outputs;
  std::vector<Update> updates;
  // Values that are read in place of others, which were made earlier; chains are followed.
  std::map<ValueId, ValueId> instead;
  // Results that become inputs (of their type), or zeros where `zeros`: constants of their type.
  std::vector<ValueId> loose;
  bool zeros = false;
  bool keep_inputs = false;  // also those that nobody reads, as bodies of nodes must
};

// Nothing is cut: the graph as it is.
GraphCut WholeOf(const Graph& graph);

// Nodes and values that outputs and updates do not need are left out, and so are symbols. Types
// stay as they are.
Graph CutGraph(const Graph& graph, const GraphCut& cut);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_CUT_GRAPH_H_
