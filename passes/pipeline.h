// The compiler: a graph in, a PlanBundle out. Reads as one flat function in pipeline.cc.
#ifndef MILLRACE_PASSES_PIPELINE_H_
#define MILLRACE_PASSES_PIPELINE_H_

#include <string>
#include <vector>

#include "graph/cost_table.h"
#include "graph/graph.h"
#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/target.h"
#include "passes/pass_list.h"
#include "passes/schedule/schedule_graph.h"

namespace millrace {

struct CompileOptions {
  std::string device = "cpu:0";  // where nodes without a device of their own go
  int threads = 0;               // of the device that its compute streams may use; 0: all
  int streams = 1;               // at most so many, where the cost model says that they pay
  ScheduleGoal schedule = ScheduleGoal::kTime;
  int zero = 0;                      // PropagateOptions::zero, of a graph with a mesh
  const CostTable* costs = nullptr;  // measured: what streams gain goes by them where they know
  PassSelection passes = {};
  RunPassesOptions running = {};
};

struct CompileResult {
  PlanBundle plan;
  std::vector<RewriteRecord> records;
};

// The first half of Compile: to one device of the mesh, and the rewrites; what was done and
// refused.
absl::StatusOr<std::vector<RewriteRecord>> RewriteGraph(Graph& graph, const MachineSpec& machine,
                                                        const Target& target,
                                                        const CompileOptions& options = {});

// `graph` is inferred and verified. A graph with a mesh is spread over the devices from
// options.device on, as its shardings ask for (passes/parallel/propagate_shardings.h).
// UsageError: a device the machine lacks, a sharding that cannot be had, or several streams for
// a graph ordered for memory; BadInputError: an op the target has no kernel for (all of them
// named); InfeasibleError: more memory than the device has, with the bytes needed.
absl::StatusOr<CompileResult> Compile(Graph graph, const MachineSpec& machine, const Target& target,
                                      const CompileOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_PIPELINE_H_
