// Three phases, over the reduced problem (strategy_reduction.h):
//
// 1. Without memory: TRW-S (strategy_messages.h) bounds the cost and suggests an assignment, which
//    elimination of blocks (strategy_block.h) improves. Where one block holds all variables and
//    memory is not over its limit, that is the optimum, and all.
// 2. With memory: every moment has a price per byte (a Lagrange multiplier), raised where the
// present
//    assignment is over the limit and lowered where it is below; messages go on under the new
//    prices. Whatever assignment happens to fit is kept, and whatever the prices, relaxed cost less
//    what the limit is worth at them is a lower bound.
// 3. Within memory: blocks around random variables, one of them sometimes forced to another
//    strategy, are solved at random multiples of the prices, and taken when they fit and cost no
//    more than a tolerance above the best that shrinks to nothing (threshold accepting; Dueck and
//    Scheuer 1990).
//
// All decisions depend on work done, counted in elementary steps, so a budget of work gives the
// same choice everywhere. The constants below were chosen once on ten contest instances together,
// none for one of them.
#include "passes/parallel/strategy_solver.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "graph/strings.h"
#include "passes/parallel/strategy_messages.h"
#include "passes/parallel/strategy_reduction.h"
#include "passes/parallel/strategy_search.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Of the budget, by the end of a phase.
constexpr double kFreeShare = 0.05, kPricedShare = 0.4;
constexpr double kLatePricedShare = 0.8;  // while nothing that fits was found
// log2 of the cells of tables of blocks: of the whole problem without memory, then with prices, and
// of those around a variable.
constexpr double kFreeCells = 17, kPricedCells = 12, kLocalCells = 12;

class StrategySolver {
 public:
  StrategySolver(const ReducedStrategies& reduced, const StrategySolverOptions& options,
                 Clock::time_point start, uint64_t seed)
      : reduced_(reduced),
        options_(options),
        start_(start),
        moments_(reduced.fixed_usage.size()),
        limit_(static_cast<double>(std::max<int64_t>(1, reduced.memory_limit))),
        search_(reduced, seed),
        messages_(reduced),
        prices_(moments_, 0) {}

  void Run() {
    Keep();
    SolveFree();
    if (!IsProven()) SolvePriced();
    if (!IsProven()) Polish();
  }

  bool better_than(const StrategySolver& other) const {
    return std::pair(best_overflow_, best_cost_) <
           std::pair(other.best_overflow_, other.best_cost_);
  }
  const std::vector<int32_t>& best() const { return best_; }
  double bound() const { return bound_; }
  int64_t work() const { return search_.work() + messages_.work(); }

 private:
  // How much of the budget is used up, 1: all.
  double Progress() const {
    double done = static_cast<double>(work()) / static_cast<double>(options_.max_work);
    if (options_.max_seconds > 0) {
      const std::chrono::duration<double> elapsed = Clock::now() - start_;
      done = std::max(done, elapsed.count() / options_.max_seconds);
    }
    return done;
  }

  // Costs are whole numbers.
  bool IsProven() const { return best_overflow_ == 0 && best_cost_ < bound_ + 0.5; }

  void Keep() {
    const auto found = std::pair(search_.overflow(), search_.cost());
    if (!best_.empty() && found >= std::pair(best_overflow_, best_cost_)) return;
    best_ = search_.assignment();
    best_cost_ = search_.cost();
    best_overflow_ = search_.overflow();
    best_prices_ = prices_;
  }

  // A pass of messages at the present prices, and the assignment that they suggest.
  void Relax() {
    search_.FillUnary(1, search_.everyone());
    double bound = messages_.Pass(search_.unary(), search_.unary_offset());
    for (size_t t = 0; t < moments_; ++t) {
      bound -= prices_[t] * (limit_ - static_cast<double>(reduced_.fixed_usage[t]));
    }
    // Sums of many terms: what rounding could have added is taken off again.
    bound_ = std::max(bound_, bound - 1e-12 * std::abs(bound));
    search_.Assign(messages_.Suggest(search_.unary(), search_.unary_offset()));
  }

  void SolveFree() {
    search_.SetPrices(prices_);
    for (int i = 0; i < 50 && (i == 0 || Progress() < kFreeShare); ++i) {
      Relax();
      Keep();
      if (IsProven()) return;
    }
    if (search_.ImproveAll(kFreeCells)) bound_ = std::max(bound_, search_.cost());
    Keep();
  }

  void SolvePriced() {
    if (search_.overflow() == 0) return;
    // A tenth of the cost for all bytes within the limit: too little, so prices rise first.
    std::fill(prices_.begin(), prices_.end(),
              0.1 * search_.cost() / limit_ / static_cast<double>(moments_));
    double most_change = 0.7;
    const auto share = [&] { return best_overflow_ > 0 ? kLatePricedShare : kPricedShare; };
    for (int round = 1; Progress() < share() && !IsProven(); ++round) {
      search_.SetPrices(prices_);
      Relax();
      if (round % 4 == 0) search_.ImproveAll(kPricedCells);
      Keep();
      most_change = std::max(0.01, 0.99 * most_change);
      for (size_t t = 0; t < moments_; ++t) {
        const double excess = static_cast<double>(search_.usage()[t]) / limit_ - 1;
        prices_[t] *= std::exp(std::clamp(10 * excess, -most_change, most_change));
      }
    }
  }

  void Polish() {
    search_.Assign(best_);
    search_.SetPrices(best_prices_);
    const double start = Progress();
    double progress = start;
    for (int64_t tries = 1; progress < 1; ++tries) {
      if (tries % 64 == 0) progress = Progress();
      const double left = std::max(0.0, (1 - progress) / (1 - start));
      Try(0.01 * left * left * best_cost_);
    }
  }

  // One block. What is over the limit never grows; while nothing is, the cost may exceed the best
  // by up to `tolerance`.
  void Try(double tolerance) {
    StrategyRandom& random = search_.random();
    const int32_t center = random.Below(static_cast<int32_t>(reduced_.variables.size()));
    search_.GrowAround(center, 1 << random.Below(9), kLocalCells);
    const bool force = random.Below(2) == 0;
    const int32_t forced = force ? random.Below(reduced_.variables[center].size()) : -1;
    double weight = random.Below(8) == 0 ? 0 : std::exp(4 * random.Unit() - 2);
    // Where it does not fit, dearer memory may make it.
    for (int attempt = 0; attempt < 3; ++attempt, weight = 2 * weight + 0.1) {
      const StrategySearch::Move& move = search_.ProposeChange(weight, forced);
      if (move.changes.empty()) return;
      if (move.overflow_change > 0) continue;
      if (move.overflow_change < 0 ||
          search_.cost() + move.cost_change <= best_cost_ + tolerance * random.Unit()) {
        search_.Apply(move);
        Keep();
      }
      return;
    }
  }

  const ReducedStrategies& reduced_;
  const StrategySolverOptions& options_;
  const Clock::time_point start_;
  const size_t moments_;
  const double limit_;
  StrategySearch search_;
  StrategyMessages messages_;
  std::vector<double> prices_, best_prices_;  // by moment
  std::vector<int32_t> best_;
  double best_cost_ = 0, best_overflow_ = 0;
  double bound_ = 0;  // no feasible assignment costs less
};

absl::Status NothingFound(const StrategyProblem& problem, const StrategySolution& solution) {
  if (solution.outcome.num_forbidden > 0) {
    return InfeasibleError(StrCat("no choice without forbidden pairs was found: the best has ",
                                  solution.outcome.num_forbidden));
  }
  return InfeasibleError(StrCat("no choice within ", problem.memory_limit,
                                " bytes was found: the best one takes ",
                                solution.outcome.peak_bytes));
}

}  // namespace

absl::StatusOr<StrategySolution> SolveStrategies(const StrategyProblem& problem,
                                                 const StrategySolverOptions& options) {
  const Clock::time_point start = Clock::now();
  MILLRACE_RETURN_IF_ERROR(VerifyStrategyProblem(problem));
  const ReducedStrategies reduced = ReduceStrategies(problem);
  if (reduced.impossible_node >= 0) {
    return InfeasibleError(StrCat("node ", reduced.impossible_node, " has no allowed strategy"));
  }
  StrategySolution solution;
  solution.num_variables = static_cast<int32_t>(reduced.variables.size());
  solution.lower_bound = reduced.constant_cost;
  std::vector<int32_t> best;
  if (!reduced.variables.empty()) {
    std::vector<StrategySolver> solvers;
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      solvers.emplace_back(reduced, options, start, options.seed + static_cast<uint64_t>(i));
    }
    std::vector<std::thread> others;
    for (size_t i = 1; i < solvers.size(); ++i) others.emplace_back([&, i] { solvers[i].Run(); });
    solvers[0].Run();
    for (std::thread& other : others) other.join();
    const StrategySolver* winner = &solvers[0];
    for (const StrategySolver& solver : solvers) {
      if (solver.better_than(*winner)) winner = &solver;
      solution.work += solver.work();
      solution.lower_bound = std::max(solution.lower_bound, solver.bound());
    }
    best = winner->best();
  }
  solution.choice = ExpandStrategies(reduced, best);
  solution.outcome = EvaluateStrategies(problem, solution.choice);
  if (!IsFeasible(problem, solution.outcome)) return NothingFound(problem, solution);
  return solution;
}

}  // namespace millrace
