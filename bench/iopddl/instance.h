// Instances of the ASPLOS 2025 contest on intra-operator parallelism, as StrategyProblems.
#ifndef MILLRACE_BENCH_IOPDDL_INSTANCE_H_
#define MILLRACE_BENCH_IOPDDL_INSTANCE_H_

#include <map>
#include <string>
#include <string_view>

#include "graph/status.h"
#include "passes/parallel/strategy_problem.h"

namespace millrace {

// JSON, plain or gzip: {"problem": {"name", "nodes": {"intervals", "costs", "usages"}, "edges":
// {"nodes", "costs"}, "usage_limit"}}. BadInputError as any reader's.
absl::StatusOr<StrategyProblem> LoadIopddlInstance(const std::string& path);
absl::StatusOr<StrategyProblem> ParseIopddlInstance(std::string json, const std::string& file);

// The least cost of any team, by instance name; from the contest's table of results: a header
// "TEAM #,A,B,..." and a line a team.
absl::StatusOr<std::map<std::string, int64_t>> ParseIopddlResults(std::string_view csv,
                                                                  std::string_view file);

}  // namespace millrace

#endif  // MILLRACE_BENCH_IOPDDL_INSTANCE_H_
