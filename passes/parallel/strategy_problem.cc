#include "passes/parallel/strategy_problem.h"

#include <algorithm>
#include <utility>

#include "graph/strings.h"

namespace millrace {
namespace {

// Bytes held at once never overflow when those of all nodes together do not.
absl::Status CheckNodeNumbers(const StrategyProblem& problem) {
  int64_t total = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const StrategyNode& node = problem.nodes[i];
    if (node.costs.empty() || node.usages.size() != node.costs.size()) {
      return BadInputError(StrCat("node ", i, " has ", node.costs.size(), " costs and ",
                                  node.usages.size(), " usages: expected as many, at least one"));
    }
    if (*std::min_element(node.costs.begin(), node.costs.end()) < 0 ||
        *std::min_element(node.usages.begin(), node.usages.end()) < 0) {
      return BadInputError(StrCat("node ", i, " has a negative cost or usage"));
    }
    const int64_t most = *std::max_element(node.usages.begin(), node.usages.end());
    if (most > INT64_MAX / 4 - total) return BadInputError("usages are too large to be added up");
    total += most;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyStrategyProblem(const StrategyProblem& problem) {
  MILLRACE_RETURN_IF_ERROR(CheckNodeNumbers(problem));
  if (problem.memory_limit < 0) return BadInputError("the memory limit is negative");
  const int64_t num_nodes = static_cast<int64_t>(problem.nodes.size());
  for (size_t i = 0; i < problem.edges.size(); ++i) {
    const StrategyEdge& edge = problem.edges[i];
    if (edge.from < 0 || edge.to < 0 || edge.from >= num_nodes || edge.to >= num_nodes ||
        edge.from == edge.to) {
      return BadInputError(StrCat("edge ", i, " joins ", edge.from, " and ", edge.to,
                                  ": expected two of ", num_nodes, " nodes"));
    }
    const size_t expected =
        problem.nodes[edge.from].costs.size() * problem.nodes[edge.to].costs.size();
    if (edge.costs.size() != expected) {
      return BadInputError(
          StrCat("edge ", i, " has ", edge.costs.size(), " costs: expected ", expected));
    }
    if (*std::min_element(edge.costs.begin(), edge.costs.end()) < 0) {
      return BadInputError(StrCat("edge ", i, " has a negative cost"));
    }
  }
  return absl::OkStatus();
}

StrategyOutcome EvaluateStrategies(const StrategyProblem& problem,
                                   std::span<const int32_t> choice) {
  StrategyOutcome outcome;
  const auto add = [&](int64_t cost) {
    if (cost >= kForbiddenCost) {
      ++outcome.num_forbidden;
    } else {
      outcome.cost = cost > INT64_MAX - outcome.cost ? INT64_MAX : outcome.cost + cost;
    }
  };
  std::vector<std::pair<int64_t, int64_t>> changes;  // (moment, bytes more)
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const StrategyNode& node = problem.nodes[i];
    add(node.costs[choice[i]]);
    if (node.begin >= node.end) continue;
    changes.emplace_back(node.begin, node.usages[choice[i]]);
    changes.emplace_back(node.end, -node.usages[choice[i]]);
  }
  for (const StrategyEdge& edge : problem.edges) {
    add(edge.costs[choice[edge.from] * problem.nodes[edge.to].costs.size() + choice[edge.to]]);
  }
  std::sort(changes.begin(), changes.end());  // ends before begins
  int64_t held = 0;
  for (const auto& [moment, bytes] : changes) {
    held += bytes;
    if (held > outcome.peak_bytes) outcome.peak_bytes = held, outcome.peak_moment = moment;
  }
  return outcome;
}

}  // namespace millrace
