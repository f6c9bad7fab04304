// What a person first asks of a graph: its interface, how much of what it holds, and how much work
// a step is.
#ifndef MILLRACE_TOOLS_GRAPH_SUMMARY_H_
#define MILLRACE_TOOLS_GRAPH_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/op_def.h"
#include "tools/output.h"

namespace millrace {

// All nodes of one op, nested graphs included (each counted once, however often it may run).
struct OpSummary {
  std::string op;
  int64_t nodes = 0;
  Work work;
};

// A list of values: how many, their elements and bytes.
struct ValueTotals {
  int64_t count = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
};

struct GraphSummary {
  int64_t nodes = 0;
  int64_t nested_graphs = 0;
  std::vector<OpSummary> ops;  // most FLOPs first, then most bytes, then by name
  Work work;
  ValueTotals params, trainable, constants, results;
};

// `graph` is inferred. O(nodes + values).
GraphSummary SummarizeGraph(const Graph& graph);

std::string ToText(const GraphSummary& summary, const Graph& graph);
Json ToJson(const GraphSummary& summary, const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_GRAPH_SUMMARY_H_
