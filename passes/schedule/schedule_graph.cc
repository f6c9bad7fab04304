#include "passes/schedule/schedule_graph.h"

#include <vector>

#include "graph/node_order.h"
#include "graph/strings.h"
#include "passes/schedule/memory_order.h"
#include "passes/schedule/schedule_problem.h"

namespace millrace {

std::string_view ScheduleGoalName(ScheduleGoal goal) {
  return goal == ScheduleGoal::kTime ? "time" : "memory";
}

absl::StatusOr<ScheduleGoal> ParseScheduleGoal(std::string_view name) {
  for (const ScheduleGoal goal : {ScheduleGoal::kTime, ScheduleGoal::kMemory}) {
    if (name == ScheduleGoalName(goal)) return goal;
  }
  return UsageError(StrCat("'", name, "' is no schedule; there are 'time' and 'memory'"));
}

namespace {

absl::StatusOr<ScheduledPeaks> OrderNested(Graph& graph, BodyPlace place) {
  for (Node& node : graph.nodes) {
    for (Subgraph& sub : node.subgraphs) {
      MILLRACE_RETURN_IF_ERROR(OrderNested(sub.graph, PlaceOfBodies(node)).status());
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const ScheduleProblem problem, ScheduleProblemOf(graph, place));
  const MemoryOrder found = OrderForMemory(problem);
  if (found.peak_bytes < found.given_peak_bytes) {
    std::vector<NodeId> order;
    order.reserve(found.order.size());
    for (const int32_t task : found.order) order.push_back(NodeId(task));
    ReorderNodes(graph, order);
  }
  return ScheduledPeaks{found.given_peak_bytes, found.peak_bytes, found.lower_bound_bytes};
}

}  // namespace

absl::StatusOr<ScheduledPeaks> OrderGraphForMemory(Graph& graph) {
  MILLRACE_ASSIGN_OR_RETURN(const ScheduleProblem before, ScheduleProblemOf(graph));
  MILLRACE_ASSIGN_OR_RETURN(ScheduledPeaks peaks, OrderNested(graph, BodyPlace::kNone));
  std::vector<int32_t> given;
  for (size_t t = 0; t < before.tasks.size(); ++t) given.push_back(static_cast<int32_t>(t));
  peaks.before_bytes = PeakBytes(before, given);
  return peaks;
}

}  // namespace millrace
