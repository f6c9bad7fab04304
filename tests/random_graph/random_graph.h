// Graphs of random nodes, by seed: every tier-1 op, all element types, nested graphs. What
// optimizes, plans or runs graphs is tried on these.
#ifndef MILLRACE_TESTS_RANDOM_GRAPH_RANDOM_GRAPH_H_
#define MILLRACE_TESTS_RANDOM_GRAPH_RANDOM_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace millrace {

struct RandomGraph {
  Graph graph;  // inferred and verified
  std::map<std::string, Tensor> inputs;
};

// About `nodes` nodes. The same seed gives the same graph on every machine. Values that kernels may
// round otherwise than the reference (tools/differential.h) are never read where a function jumps
// (Floor, Less, ArgMax), so that outputs of two implementations can be compared.
RandomGraph MakeRandomGraph(uint64_t seed, int nodes = 10);

// The ops that it may draw.
std::vector<std::string> RandomGraphOps();

}  // namespace millrace

#endif  // MILLRACE_TESTS_RANDOM_GRAPH_RANDOM_GRAPH_H_
