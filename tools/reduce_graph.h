// Delta debugging of graphs: from one that shows a fault to a small one that still does.
#ifndef MILLRACE_TOOLS_REDUCE_GRAPH_H_
#define MILLRACE_TOOLS_REDUCE_GRAPH_H_

#include <cstdint>
#include <functional>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// Whether a candidate still shows the fault. Candidates are verified and inferred, and have no free
// symbols. An error ends the reduction.
using Interesting = std::function<absl::StatusOr<bool>(const Graph&)>;

struct ReduceCounts {
  int64_t tried = 0;      // candidates that were asked about
  int64_t successes = 0;  // of which these still showed the fault
};

// `graph` is inferred. No single edit that is known here makes the result smaller and keeps it
// interesting. Deterministic. UsageError when `graph` itself is not interesting.
absl::StatusOr<Graph> ReduceGraph(const Graph& graph, const Interesting& interesting,
                                  ReduceCounts* counts = nullptr);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_REDUCE_GRAPH_H_
