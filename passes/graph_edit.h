// The edits that rewrite passes make, keeping ids dense and lists consistent.
#ifndef MILLRACE_PASSES_GRAPH_EDIT_H_
#define MILLRACE_PASSES_GRAPH_EDIT_H_

#include <span>
#include <vector>

#include "graph/graph.h"

namespace millrace {

// Every read of value v (node inputs, updates; graph outputs are left alone) becomes a read of
// replacement[v], which may be v. Chains are followed; there must be no cycle.
void ReplaceReads(Graph& graph, std::span<const ValueId> replacement);

// replacement[v] == v for all values, to begin with.
std::vector<ValueId> EachItself(const Graph& graph);

// mask[v] != 0: a graph output.
std::vector<uint8_t> OutputMask(const Graph& graph);
// Whether `value` can be an output in place of another that equals it: it is a node's result and no
// output yet.
bool CanBecomeOutput(const Graph& graph, std::span<const uint8_t> is_output, ValueId value);
// Both ask for the same sharding, or for none.
bool SameSharding(const Graph& graph, ValueId a, ValueId b);
// Makes `to` the graph output that `from` was, under the same name.
void TakeOverOutput(Graph& graph, ValueId from, ValueId to);

// Drops the nodes with keep[n] == 0 together with their results, and renumbers. Nobody may
// read those results; `after` references to dropped nodes pass on to what those came after.
void RemoveNodes(Graph& graph, const std::vector<uint8_t>& keep);

// Drops the constants with keep[v] == 0, and their data, and renumbers values. Nobody may read
// them.
void RemoveConstants(Graph& graph, const std::vector<uint8_t>& keep);

}  // namespace millrace

#endif  // MILLRACE_PASSES_GRAPH_EDIT_H_
