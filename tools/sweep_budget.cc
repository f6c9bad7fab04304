#include "tools/sweep_budget.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/budget/fit_graph.h"
#include "passes/budget/graph_problem.h"
#include "tools/output.h"
#include "tools/prediction.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr int kPoints = 10;

struct BudgetPoint {
  int64_t budget_bytes = 0, planned_bytes = 0, repeats = 0;
  PredictedStep predicted;
};

absl::StatusOr<BudgetPoint> PlanPoint(const PlanningOptions& planning, int64_t budget_bytes) {
  PlanningOptions options = planning;
  if (budget_bytes > 0) options.memory_budget = StrCat(budget_bytes);
  MILLRACE_ASSIGN_OR_RETURN(const PlanForMachine planned, CompileFile(options));
  const CheckReport report = CheckPlan(planned.plan, AllOpTraits(), &planned.machine);
  if (!report.ok()) return CheckFailedError(FormatReport(report));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<CostTable> costs, LoadCosts(options));
  BudgetPoint point;
  point.planned_bytes = BudgetedBytes(planned.plan.programs[0]);
  point.budget_bytes = budget_bytes > 0 ? budget_bytes : point.planned_bytes;
  point.repeats = std::ranges::count_if(planned.plan.graph.nodes, IsRepeat);
  point.predicted = PredictStep(planned.plan, planned.machine, costs, !options.machine.empty());
  return point;
}

void PrintPoints(const std::vector<BudgetPoint>& points, const std::string& end, bool json) {
  if (json) {
    Json document = JsonHeader("millrace-sweep-budget");
    document["points"] = Json::array();
    for (const BudgetPoint& point : points) {
      document["points"].push_back({{"budget_bytes", point.budget_bytes},
                                    {"planned_bytes", point.planned_bytes},
                                    {"repeated_nodes", point.repeats},
                                    {"step_us", point.predicted.step_us}});
    }
    document["basis"] = points[0].predicted.basis;
    document["end"] = end;
    PrintJson(document);
    return;
  }
  Table table({">budget", ">of the most", ">planned", ">run again", ">step", ">longer"});
  const BudgetPoint& first = points[0];
  for (const BudgetPoint& point : points) {
    const double longer =
        first.predicted.step_us > 0 ? point.predicted.step_us / first.predicted.step_us - 1 : 0;
    table.Row({FormatBytes(static_cast<double>(point.budget_bytes)),
               FormatPercent(static_cast<double>(point.budget_bytes) /
                             static_cast<double>(first.budget_bytes)),
               FormatBytes(static_cast<double>(point.planned_bytes)), FormatCount(point.repeats),
               FormatDuration(point.predicted.step_us), absl::StrFormat("%.1f %%", 100 * longer)});
  }
  Print(StrCat(table.ToString(), "\npredicted ", first.predicted.basis, "\n",
               end.empty() ? "" : StrCat("below: ", end, "\n")));
}

}  // namespace

absl::Status SweepBudget(const PlanningOptions& planning, bool json) {
  if (!planning.memory_budget.empty()) {
    return UsageError("--sweep-budget tries all budgets; --memory-budget asks for one");
  }
  std::vector<BudgetPoint> points;
  MILLRACE_ASSIGN_OR_RETURN(BudgetPoint most, PlanPoint(planning, 0));
  const int64_t most_bytes = most.planned_bytes;
  points.push_back(std::move(most));
  std::string end;
  for (int tenth = kPoints - 1; tenth > 0 && end.empty(); --tenth) {
    absl::StatusOr<BudgetPoint> point = PlanPoint(planning, most_bytes / kPoints * tenth);
    if (point.ok()) {
      points.push_back(*std::move(point));
    } else if (ExitCode(point.status()) == ExitCode(InfeasibleError(""))) {
      end = std::string(point.status().message());
    } else {
      return point.status();
    }
  }
  PrintPoints(points, end, json);
  return absl::OkStatus();
}

}  // namespace millrace
