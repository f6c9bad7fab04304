// The moves of the strategy solver: an assignment of reduced variables, what it costs, what memory
// it takes at each moment, and ways to improve it. Which moves are made when is strategy_solver's.
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_SEARCH_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_SEARCH_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "passes/parallel/strategy_block.h"
#include "passes/parallel/strategy_random.h"
#include "passes/parallel/strategy_reduction.h"

namespace millrace {

class StrategySearch {
 public:
  StrategySearch(const ReducedStrategies& reduced, uint64_t seed);

  const std::vector<int32_t>& assignment() const { return assignment_; }
  double cost() const { return cost_; }
  // Bytes over the limit, summed over moments.
  double overflow() const { return overflow_; }
  const std::vector<int64_t>& usage() const { return usage_; }
  // Elementary steps done so far; about 10^9 a second.
  int64_t work() const { return work_ + block_.work(); }
  StrategyRandom& random() { return random_; }

  void Assign(std::vector<int32_t> assignment);

  // Cost of a byte held over each moment, which moves add to the cost of strategies.
  void SetPrices(const std::vector<double>& prices);

  // Costs of all strategies with priced memory, as StrategyBlock and StrategyMessages take them.
  void FillUnary(double weight, std::span<const int32_t> variables);
  const std::vector<double>& unary() const { return unary_; }
  const std::vector<int32_t>& unary_offset() const { return priced_offset_; }
  const std::vector<int32_t>& everyone() const { return everyone_; }

  // Gives random variables, nearly all where the graph is simple, the strategies that are best
  // together, by cost + priced memory. Tables stay below 2^max_log2_cells. Whether those were all
  // variables: then nothing is better.
  bool ImproveAll(double max_log2_cells);

  struct Move {
    std::vector<std::pair<int32_t, int32_t>> changes;  // (variable, strategy)
    double cost_change = 0;
    double overflow_change = 0;
  };
  // Chooses a connected block of up to `max_size` variables around `center`.
  void GrowAround(int32_t center, int32_t max_size, double max_log2_cells);
  // Its best change by cost + weight * priced memory, after `center` has taken strategy `forced`
  // unless that is -1. Not yet applied.
  const Move& ProposeChange(double weight, int32_t forced);
  void Apply(const Move& move);

 private:
  double CostChange();
  double OverflowChange();
  void AddSteps(int32_t variable, int32_t from, int32_t to);

  const ReducedStrategies& reduced_;
  StrategyRandom random_;
  std::vector<int32_t> assignment_;
  double cost_ = 0;
  double overflow_ = 0;
  std::vector<int64_t> usage_;
  std::vector<double> priced_;          // memory at its price, of all strategies of all variables
  std::vector<int32_t> priced_offset_;  // of a variable's first strategy
  int64_t work_ = 0;

  std::vector<double> unary_;  // cost + weight * priced
  StrategyBlock block_;
  int32_t center_ = -1;
  std::vector<int32_t> everyone_, frontier_, grown_;
  std::vector<char> seen_;  // by variable, all 0 between calls
  Move move_;
  std::vector<int64_t> steps_;  // by moment, all 0 between moves
  int32_t steps_begin_ = 0, steps_end_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_SEARCH_H_
