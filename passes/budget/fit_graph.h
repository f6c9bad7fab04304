// Fits a graph into the memory of a device: another order of its nodes, and nodes that run again
// rather than hold what they gave. Its results are the same to the bit: every node keeps the kernel
// that it has without a budget.
#ifndef MILLRACE_PASSES_BUDGET_FIT_GRAPH_H_
#define MILLRACE_PASSES_BUDGET_FIT_GRAPH_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/target.h"
#include "passes/cost_model.h"
#include "passes/emit_plan.h"
#include "passes/pass.h"

namespace millrace {

struct FitGraphOptions {
  int64_t budget_bytes = 0;
  const DeviceSpec* device = nullptr;
  KnownCosts known = {};
  EmitOptions emit = {};  // for one stream
};

struct FittedGraph {
  Graph graph;
  Program program;
  // What was done, and for each tensor that waits while most is live why it is kept or made again.
  std::vector<RewriteRecord> records;
};

// What a program's memory counts as: that of its device, and on a cpu device the host's, which is
// the same.
int64_t BudgetedBytes(const Program& program);

// InfeasibleError: with the lower bound, what is live at the peak, and the smallest budget for
// which it succeeds; EmitProgram's errors.
absl::StatusOr<FittedGraph> FitGraph(const Graph& graph, const Target& target,
                                     const FitGraphOptions& options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_BUDGET_FIT_GRAPH_H_
