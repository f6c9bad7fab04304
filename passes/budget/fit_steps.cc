// Which tensor goes first is a matter of weighing time, bytes and the wait against each other, and
// no weights are best for all problems. So sweeps (budget_sweep.h) are run by a few rules, and the
// best result is improved on:
//  * Repeats that turn out not to be needed are taken out: without one, readers read the instance
//    before, which lives longer. What the greedy sweep let go too early comes back so.
//  * The best rule is run again with other biases of some tensors, drawn from those that were
//    repeated and those they were computed from; what is better stays. A climb in the space of
//    rules, where every point is a feasible answer.
// Every answer is measured by MeasureSteps, which knows nothing of how it was found.
#include "passes/budget/fit_steps.h"

#include <algorithm>
#include <random>

#include "passes/budget/budget_sweep.h"

namespace millrace {
namespace {

using Gather = SweepRule::Gather;

constexpr SweepRule kRules[] = {
    {1, 1, Gather::kThereFirst}, {1, 0.5, Gather::kThereFirst},   {1, 0, Gather::kThereFirst},
    {1, 2, Gather::kThereFirst}, {1, 1, Gather::kCostliestFirst}, {0.5, 1, Gather::kThereFirst},
    {0, 1, Gather::kThereFirst}, {1, 1, Gather::kAsListed},       {1, 0, Gather::kCostliestFirst},
    {0, 0, Gather::kThereFirst}, {1, 4, Gather::kThereFirst},     {0.5, 0, Gather::kCostliestFirst},
};

class Fitter {
 public:
  Fitter(const BudgetProblem& problem, const FitOptions& options)
      : problem_(problem), options_(options), sweeper_(problem) {}

  FittedSteps Fit() {
    if (FitsAsGiven()) return std::move(best_);
    for (const SweepRule& rule : kRules) {
      Try(rule);
      if (best_.fits && best_.work >= options_.max_work) return std::move(best_);
    }
    if (best_.fits) Climb();
    return std::move(best_);
  }

 private:
  bool FitsAsGiven() {
    std::vector<int32_t> steps(problem_.ops.size());
    for (size_t o = 0; o < steps.size(); ++o) steps[o] = static_cast<int32_t>(o);
    return Take(std::move(steps));
  }

  // Whether the steps fit and are better than the best so far, which they are then.
  bool Take(std::vector<int32_t> steps) {
    best_.work += std::ssize(steps) * kWorkPerStep;
    const absl::StatusOr<StepsMeasure> measure = MeasureSteps(problem_, steps);
    if (!measure.ok() || measure->peak_bytes > options_.budget_bytes ||
        measure->repeat_us > options_.max_repeat_us) {
      return false;
    }
    if (best_.fits && measure->repeat_us >= best_.measure.repeat_us) return false;
    best_.fits = true;
    best_.measure = *measure;
    best_.steps = std::move(steps);
    return true;
  }

  bool Try(const SweepRule& rule) {
    SweepLimits limits{.budget_bytes = options_.budget_bytes};
    // What takes somewhat longer than the best may be better once it is thinned out.
    limits.max_repeat_us =
        best_.fits ? kSlack * best_.measure.repeat_us : kSlack * options_.max_repeat_us;
    limits.max_work = kSweepWork + kSweepWorkPerOp * std::ssize(problem_.ops);
    SweepResult swept = sweeper_.Run(rule, limits, best_.work);
    if (!swept.fits) {
      if (!best_.fits) best_.failed_op = std::max(best_.failed_op, swept.failed_op);
      return false;
    }
    if (!Take(Thin(std::move(swept.steps)))) return false;
    rule_ = rule;
    return true;
  }

  // Takes out repeats that need not be, the costliest first.
  std::vector<int32_t> Thin(std::vector<int32_t> steps) {
    std::vector<uint8_t> has_run(problem_.ops.size(), 0);
    std::vector<std::pair<double, size_t>> repeats;  // by time
    for (size_t s = 0; s < steps.size(); ++s) {
      if (has_run[steps[s]] != 0) repeats.emplace_back(-problem_.ops[steps[s]].time_us, s);
      has_run[steps[s]] = 1;
    }
    if (std::ssize(repeats) * std::ssize(steps) > kMaxThinning) return steps;
    std::ranges::stable_sort(repeats, {}, &std::pair<double, size_t>::first);
    constexpr int32_t kGone = -1;
    std::vector<int32_t> without;
    for (const auto& [time, s] : repeats) {
      const int32_t op = steps[s];
      steps[s] = kGone;
      without.clear();
      std::ranges::copy_if(steps, std::back_inserter(without), [](int32_t o) { return o >= 0; });
      best_.work += std::ssize(without) * kWorkPerStep;
      const absl::StatusOr<StepsMeasure> measure = MeasureSteps(problem_, without);
      if (!measure.ok() || measure->peak_bytes > options_.budget_bytes) steps[s] = op;
    }
    std::erase(steps, kGone);
    return steps;
  }

  void Climb() {
    std::minstd_rand random(1);
    std::vector<double> bias(problem_.tensors.size(), 1), trial;
    while (best_.work < options_.max_work) {
      trial = bias;
      const std::vector<int32_t> choices = TensorsAtStake();
      if (choices.empty()) return;
      const int changes = 1 << (random() % 4);
      for (int i = 0; i < changes; ++i) {
        double& one = trial[choices[random() % choices.size()]];
        one *= random() % 2 == 0 ? 4 : 0.25;
      }
      SweepRule rule = rule_;
      if (random() % 8 == 0) {
        const SweepRule& other = kRules[random() % std::size(kRules)];
        rule.size_exponent = other.size_exponent;
        rule.gap_exponent = other.gap_exponent;
        rule.gather = other.gather;
      }
      rule.bias = trial;
      if (Try(rule)) bias.swap(trial);
      rule_.bias = {};
    }
  }

  // Results and operands of what was repeated.
  std::vector<int32_t> TensorsAtStake() const {
    std::vector<uint8_t> has_run(problem_.ops.size(), 0);
    std::vector<int32_t> tensors;
    for (const int32_t o : best_.steps) {
      if (has_run[o] != 0) {
        const BudgetOp& op = problem_.ops[o];
        tensors.insert(tensors.end(), op.writes.begin(), op.writes.end());
        for (const int32_t read : op.reads) {
          if (problem_.tensors[read].producer >= 0) tensors.push_back(read);
        }
      }
      has_run[o] = 1;
    }
    return tensors;
  }

  static constexpr int64_t kWorkPerStep = 8;
  static constexpr int64_t kSweepWork = 1'000'000, kSweepWorkPerOp = 2'000;
  static constexpr int64_t kMaxThinning = 20'000'000;  // repeats * steps
  static constexpr double kSlack = 1.25;

  const BudgetProblem& problem_;
  const FitOptions& options_;
  BudgetSweeper sweeper_;
  FittedSteps best_;
  SweepRule rule_;  // of the best
};

}  // namespace

FittedSteps FitSteps(const BudgetProblem& problem, const FitOptions& options) {
  return Fitter(problem, options).Fit();
}

LeastBudget FindLeastBudget(const BudgetProblem& problem, FitOptions options) {
  LeastBudget least;
  int64_t too_small = LargestWorkingSet(problem).bytes - 1;
  std::vector<int32_t> given(problem.ops.size());
  for (size_t o = 0; o < given.size(); ++o) given[o] = static_cast<int32_t>(o);
  const absl::StatusOr<StepsMeasure> as_given = MeasureSteps(problem, given);
  if (!as_given.ok()) return least;
  least.bytes = as_given->peak_bytes;
  least.fitted = {.fits = true, .steps = std::move(given), .measure = *as_given};
  while (least.bytes - too_small > 1 + least.bytes / 1000) {
    options.budget_bytes = too_small + (least.bytes - too_small) / 2;
    FittedSteps fitted = FitSteps(problem, options);
    if (fitted.fits) {
      least.bytes = fitted.measure.peak_bytes;
      least.fitted = std::move(fitted);
    } else {
      too_small = options.budget_bytes;
    }
  }
  return least;
}

}  // namespace millrace
