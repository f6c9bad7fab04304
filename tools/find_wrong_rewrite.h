// Which rewrite makes a result wrong. Results are compared by what graphs mean, node after node by
// reference kernels: no plan and no fast kernel is involved.
//
// First the execution of a pass is found before which the graph still means what it should, and
// after which it does not: by halving, which finds one even where faults hide each other. Then the
// graph before it is reduced (reduce_graph.h) while the pass alone still makes it wrong: what the
// pass does to that graph is the rewrite that is wrong, and the graph is the proof.
#ifndef MILLRACE_TOOLS_FIND_WRONG_REWRITE_H_
#define MILLRACE_TOOLS_FIND_WRONG_REWRITE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/pass.h"

namespace millrace {

// Rewrites a graph, and calls `after` of the options after each pass.
using RewriteFn = std::function<absl::Status(Graph&, const RunPassesOptions&)>;

struct WrongRewrite {
  std::string pass;
  int64_t execution = 0, executions = 0;  // of those that changed the graph, from 1
  std::string mismatch;                   // what is wrong with the smallest graph's result
  Graph smallest;                         // that the pass makes wrong
  std::vector<RewriteRecord> records;     // what it applies to that graph
};

// nullopt: the rewritten graph means the same. `graph` is inferred; `context` has the machine and
// target for passes; inputs are drawn by `seed` (differential.h).
absl::StatusOr<std::optional<WrongRewrite>> FindWrongRewrite(const Graph& graph,
                                                             const RewriteFn& rewrite,
                                                             const PassContext& context,
                                                             uint64_t seed);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_FIND_WRONG_REWRITE_H_
