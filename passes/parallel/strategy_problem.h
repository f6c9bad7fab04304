// The choice of one strategy per node at least cost under a memory limit: what automatic partition
// comes to once graphs, meshes and op rules are turned into numbers. Plain data; nothing here knows
// graphs. The form of the ASPLOS 2025 contest on intra-operator parallelism (bench/iopddl).
#ifndef MILLRACE_PASSES_PARALLEL_STRATEGY_PROBLEM_H_
#define MILLRACE_PASSES_PARALLEL_STRATEGY_PROBLEM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/status.h"

namespace millrace {

// A cost of this much or more forbids the strategy, or the pair of strategies.
inline constexpr int64_t kForbiddenCost = 1'000'000'000'000'000'000;

struct StrategyNode {
  std::vector<int64_t> costs;   // by strategy, at least one; >= 0
  std::vector<int64_t> usages;  // bytes, by strategy; >= 0
  // Moments in which those bytes are held, half-open; empty (begin >= end): never.
  int64_t begin = 0, end = 0;
};

struct StrategyEdge {
  int32_t from = 0, to = 0;    // nodes; several edges may join the same two
  std::vector<int64_t> costs;  // [strategies of from][strategies of to], row-major; >= 0
};

struct StrategyProblem {
  std::vector<StrategyNode> nodes;
  std::vector<StrategyEdge> edges;
  int64_t memory_limit = INT64_MAX;  // at every moment
};

// What a choice comes to.
struct StrategyOutcome {
  int64_t cost = 0;  // of nodes and edges, forbidden ones left out; saturates
  int64_t num_forbidden = 0;
  int64_t peak_bytes = 0;   // over all moments
  int64_t peak_moment = 0;  // the first one of the peak
};

// BadInputError when sizes or indices do not fit together or numbers are negative or so large that
// their sum could overflow.
absl::Status VerifyStrategyProblem(const StrategyProblem& problem);

// `choice` has one strategy per node. O(nodes log nodes + edges).
StrategyOutcome EvaluateStrategies(const StrategyProblem& problem, std::span<const int32_t> choice);

inline bool IsFeasible(const StrategyProblem& problem, const StrategyOutcome& outcome) {
  return outcome.num_forbidden == 0 && outcome.peak_bytes <= problem.memory_limit;
}

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_STRATEGY_PROBLEM_H_
