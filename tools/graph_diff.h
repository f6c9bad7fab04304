// How two graphs differ in meaning. Names of nodes and results, and the order of nodes, mean
// nothing; names of inputs and params do, because that is how users know them. Outputs go by their
// places.
#ifndef MILLRACE_TOOLS_GRAPH_DIFF_H_
#define MILLRACE_TOOLS_GRAPH_DIFF_H_

#include <string>
#include <vector>

#include "graph/graph.h"

namespace millrace {

struct Difference {
  std::string kind;   // "node", "operand", "attribute", "type", "data", "output", "slice", ...
  std::string where;  // the node or value, by its name in A, or in B if only there
  std::string text;   // "strides: [1, 1] became [2, 2]", "only in B"
};

struct GraphDiff {
  std::vector<Difference> differences;  // in the order of A's nodes; what only B has comes last
  // By value and node of B, what it is in A; ids are invalid where A has nothing like it.
  std::vector<ValueId> value_in_a;
  std::vector<NodeId> node_in_a;
};

// Both are verified and typed. First nodes that mean the same from the inputs on are paired, then,
// from the inputs on, those of one op that read the same or have the same name: a difference is
// told where it arises, not at all that comes after it. O(nodes + values), and the size of data.
GraphDiff DiffGraphs(const Graph& a, const Graph& b);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_GRAPH_DIFF_H_
