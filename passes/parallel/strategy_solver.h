// Solves StrategyProblems: the cheapest choice found that keeps to the memory limit.
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_SOLVER_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_SOLVER_H_

#include <cstdint>
#include <vector>

#include "passes/parallel/strategy_problem.h"

namespace millrace {

struct StrategySolverOptions {
  // Elementary steps of each thread; some 10^9 a second. The same budget gives the same choice.
  int64_t max_work = 2'000'000'000;
  // Stops after this long as well, at a choice that then depends on the clock. 0: never.
  double max_seconds = 0;
  int threads = 1;  // independent searches, the best of which counts
  uint64_t seed = 1;
};

struct StrategySolution {
  std::vector<int32_t> choice;  // a strategy per node
  StrategyOutcome outcome;
  double lower_bound = 0;     // no feasible choice costs less; 0 where nothing is known
  int32_t num_variables = 0;  // left after reduction
  int64_t work = 0;           // of all threads
};

// InfeasibleError when no choice within the limit was found; it says how many bytes the best one
// is over, or which node has no strategy that is allowed. BadInputError as VerifyStrategyProblem.
absl::StatusOr<StrategySolution> SolveStrategies(const StrategyProblem& problem,
                                                 const StrategySolverOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_SOLVER_H_
