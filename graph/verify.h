// The graph verifier: what must hold of every Graph, whatever its ops mean. Runs after loading and
// after each pass. Op semantics are inference's (ops/infer.h). O(values + uses).
#ifndef MILLRACE_GRAPH_VERIFY_H_
#define MILLRACE_GRAPH_VERIFY_H_

#include "graph/diagnostics.h"
#include "graph/graph.h"

namespace millrace {

// Graphs within graphs, the outermost not counted.
inline constexpr int kMaxGraphNesting = 32;

// Ids in range; each value listed once and in the list of its kind; producers and result indices
// agree; nodes in topological order (data and `after`); names unique and not empty; types within
// bounds; data sources fit; updates: one per param, types equal; outputs exist; shardings fit the
// mesh; nested graphs likewise, and closed.
void VerifyGraph(const Graph& graph, Diagnostics& diagnostics);

// Same as a Status: InternalError (a pass broke the graph) with the first findings.
absl::Status VerifyGraphAfter(const Graph& graph, std::string_view pass);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_VERIFY_H_
