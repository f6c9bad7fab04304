// Messages between variables that bound the cost of any assignment from below, and suggest a good
// one.
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_MESSAGES_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_MESSAGES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "passes/parallel/strategy_reduction.h"

namespace millrace {

class StrategyMessages {
 public:
  explicit StrategyMessages(const ReducedStrategies& reduced);

  // One pass over all variables there and back. `unary` and `unary_offset` are as StrategyBlock's.
  // Returns a lower bound of what any assignment costs: unary costs and those of edges.
  double Pass(std::span<const double> unary, std::span<const int32_t> unary_offset);

  // A strategy per variable: in order, the best by those before it and the messages of those after.
  std::vector<int32_t> Suggest(std::span<const double> unary,
                               std::span<const int32_t> unary_offset) const;

  int64_t work() const { return work_; }

 private:
  double Visit(int32_t variable, bool forward, std::span<const double> own);

  const ReducedStrategies& reduced_;
  std::vector<std::vector<int64_t>> from_;  // [variable][neighbor]: where its message begins
  std::vector<std::vector<int64_t>> to_;    // [variable][neighbor]: where the one to it begins
  std::vector<double> messages_, belief_, sent_;
  int64_t work_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_MESSAGES_H_
