// `millrace plan --sweep-budget`: what a step takes within less and less memory.
#ifndef MILLRACE_TOOLS_SWEEP_BUDGET_H_
#define MILLRACE_TOOLS_SWEEP_BUDGET_H_

#include "graph/status.h"
#include "tools/compile.h"

namespace millrace {

// Plans the graph file for what it takes without a budget, then for a tenth less each time, until
// nothing fits, and prints the memory and the predicted time of each plan.
absl::Status SweepBudget(const PlanningOptions& planning, bool json);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_SWEEP_BUDGET_H_
