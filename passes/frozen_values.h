// Which values are the same in every step: what a plan may compute once, when a session is made.
#ifndef MILLRACE_PASSES_FROZEN_VALUES_H_
#define MILLRACE_PASSES_FROZEN_VALUES_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace millrace {

// By value of the outermost graph, 1: a constant, a param that no update writes, or the result of a
// node that reads such values alone and is deterministic, without effects, nested graphs,
// communication or sizes that depend on data. O(nodes + uses).
std::vector<uint8_t> FrozenValues(const Graph& graph);

// By node, 1: its results are frozen, and computing them once is worth the memory they then keep
// for good: they take no more than what they are computed from, or little. So are the results of
// all nodes that it reads.
std::vector<uint8_t> NodesForInit(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_FROZEN_VALUES_H_
