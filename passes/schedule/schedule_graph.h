// What `--schedule` asks for, done to a graph: its nodes, and those of its nested graphs, put in
// another order.
#ifndef MILLRACE_PASSES_SCHEDULE_SCHEDULE_GRAPH_H_
#define MILLRACE_PASSES_SCHEDULE_SCHEDULE_GRAPH_H_

#include <cstdint>
#include <string_view>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

enum class ScheduleGoal : uint8_t {
  // As soon as possible. On one stream the order makes no difference to the cost model, and nodes
  // stay in the order they are in.
  kTime,
  kMemory,  // with as little live at once as possible (memory_order.h)
};
std::string_view ScheduleGoalName(ScheduleGoal goal);  // "time", "memory"
// UsageError naming what there is.
absl::StatusOr<ScheduleGoal> ParseScheduleGoal(std::string_view name);

// Bytes live at once, of results and inputs, as schedule_problem.h counts them.
struct ScheduledPeaks {
  int64_t before_bytes = 0;
  int64_t after_bytes = 0;
  int64_t lower_bound_bytes = 0;  // of any order of the nodes of this graph
};

// Innermost bodies first: what a body needs is workspace of its node. Nodes with effects keep their
// order. InfeasibleError when all results together exceed any memory.
absl::StatusOr<ScheduledPeaks> OrderGraphForMemory(Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_SCHEDULE_GRAPH_H_
