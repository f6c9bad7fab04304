// The edits that rewrite passes make, keeping ids dense and lists consistent.
#ifndef MILLRACE_PASSES_GRAPH_EDIT_H_
#define MILLRACE_PASSES_GRAPH_EDIT_H_

#include <span>
#include <string>
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

// Adds to `origin` what `node` stands for: its own origin, or itself. For a node that does the work
// of several.
void AppendOrigin(const Node& node, std::vector<std::string>& origin);

// mask[n] != 0: another node comes `after` it, so its place in the order means something.
std::vector<uint8_t> AwaitedMask(const Graph& graph);

// Drops the nodes with keep[n] == 0 together with their results, and renumbers. Nobody may
// read those results; `after` references to dropped nodes pass on to what those came after.
void RemoveNodes(Graph& graph, const std::vector<uint8_t>& keep);

// Drops the constants with keep[v] == 0, and their data, and renumbers values. Nobody may read
// them.
void RemoveConstants(Graph& graph, const std::vector<uint8_t>& keep);

}  // namespace millrace

#endif  // MILLRACE_PASSES_GRAPH_EDIT_H_
