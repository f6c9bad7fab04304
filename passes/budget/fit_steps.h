// Fits a budget problem into memory by computing again what there is no room to keep, in as little
// more time as possible.
#ifndef MILLRACE_PASSES_BUDGET_FIT_STEPS_H_
#define MILLRACE_PASSES_BUDGET_FIT_STEPS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "graph/status.h"
#include "passes/budget/budget_problem.h"

namespace millrace {

struct FitOptions {
  int64_t budget_bytes = 0;
  double max_repeat_us = std::numeric_limits<double>::infinity();  // that repeats may take
  // When to stop looking for less, in steps of about ten nanoseconds, counted so that the result
  // does not depend on the machine. 0: the first that fits.
  int64_t max_work = 20'000'000;
};

struct FittedSteps {
  bool fits = false;
  std::vector<int32_t> steps = {};  // if it fits
  StepsMeasure measure = {};
  // If it does not: the operation for which the rule that came farthest found no room.
  int32_t failed_op = -1;
  int64_t work = 0;
};

// Deterministic. The problem passed its verification.
FittedSteps FitSteps(const BudgetProblem& problem, const FitOptions& options);

// The least budget that FitSteps can do with, to one part in a thousand, and its steps.
struct LeastBudget {
  int64_t bytes = 0;
  FittedSteps fitted;
};
LeastBudget FindLeastBudget(const BudgetProblem& problem, FitOptions options);

}  // namespace millrace

#endif  // MILLRACE_PASSES_BUDGET_FIT_STEPS_H_
