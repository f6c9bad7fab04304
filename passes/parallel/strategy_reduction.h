// A StrategyProblem made smaller without losing any solution: fewer variables, each standing for
// nodes whose strategies follow from one another; only moments at which memory can be at its peak.
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_REDUCTION_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_REDUCTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "passes/parallel/strategy_problem.h"

namespace millrace {

// Bytes of a variable over moments [begin, end): usages[strategy].
struct StrategyInterval {
  int32_t begin = 0, end = 0;
  std::vector<int64_t> usages;
};

struct StrategyNeighbor {
  int32_t variable = 0;
  // Costs of the neighbor's strategy and one's own: [neighbor's][own], an index into
  // ReducedStrategies::tables.
  int32_t table = 0;
  // The same costs as the neighbor sees them: [own][neighbor's].
  int32_t transposed = 0;
};

struct StrategyVariable {
  std::vector<double> costs;                // by strategy, at least two
  std::vector<StrategyInterval> intervals;  // whose usages differ by strategy
  std::vector<StrategyNeighbor> neighbors;  // in order of variables
  int32_t size() const { return static_cast<int32_t>(costs.size()); }
};

struct ReducedStrategies {
  std::vector<StrategyVariable> variables;
  std::vector<std::vector<double>> tables;
  double constant_cost = 0;
  double forbidden = 0;              // in place of costs that forbid: more than all else together
  std::vector<int64_t> fixed_usage;  // by moment, whatever is chosen
  int64_t memory_limit = 0;
  // Node i takes strategy maps[i][s] when its variable takes s; variable_of[i] -1: always
  // maps[i][0].
  std::vector<int32_t> variable_of;
  std::vector<std::vector<int32_t>> maps;
  // A node none of whose strategies is allowed, whatever else is chosen; -1: none was found.
  int32_t impossible_node = -1;

  int32_t num_moments() const { return static_cast<int32_t>(fixed_usage.size()); }
};

ReducedStrategies ReduceStrategies(const StrategyProblem& problem);

// One strategy per node, from one per variable.
std::vector<int32_t> ExpandStrategies(const ReducedStrategies& reduced,
                                      std::span<const int32_t> assignment);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_REDUCTION_H_
