// One sweep over a budget problem: runs the operations in order, within the memory there is. What
// is read and gone is computed again, and what is read for that, and so on. Where room is lacking,
// what is worth least goes.
#ifndef MILLRACE_PASSES_BUDGET_BUDGET_SWEEP_H_
#define MILLRACE_PASSES_BUDGET_BUDGET_SWEEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "passes/budget/budget_problem.h"

namespace millrace {

// To hold a tensor is worth (time to get it back) / (bytes^size_exponent * (time until it is read
// next)^gap_exponent), times its bias.
struct SweepRule {
  double size_exponent = 1;
  double gap_exponent = 1;
  // In which order what an operation reads is pinned, or computed again.
  enum class Gather : uint8_t { kThereFirst, kAsListed, kCostliestFirst };
  Gather gather = Gather::kThereFirst;
  std::span<const double> bias = {};  // by tensor; empty: all 1
};

struct SweepLimits {
  int64_t budget_bytes = 0;
  double max_repeat_us = 0;  // gives up when repeats take longer
  int64_t max_work = 0;      // and after so many steps of about ten nanoseconds
};

struct SweepResult {
  bool fits = false;
  std::vector<int32_t> steps = {};  // if it fits
  double repeat_us = 0;
  // If it does not: the operation for which there was no room, and how much there would have to be.
  int32_t failed_op = -1;
  int64_t needed_bytes = 0;
};

// Of one problem, which outlives it; remembers what all sweeps need to know.
class BudgetSweeper {
 public:
  explicit BudgetSweeper(const BudgetProblem& problem);
  ~BudgetSweeper();

  // Adds its steps to `work`.
  SweepResult Run(const SweepRule& rule, const SweepLimits& limits, int64_t& work);

 private:
  class Sweep;
  const BudgetProblem& problem_;
  std::vector<int32_t> storage_;               // by tensor
  std::vector<std::vector<int32_t>> readers_;  // by storage: operations, ascending
  std::vector<std::vector<int32_t>> views_;    // by storage: tensors that lie in it
  std::vector<double> begin_us_;               // by operation, and one: without repeats
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_BUDGET_BUDGET_SWEEP_H_
