// How well the strategy solver does on instances of the ASPLOS 2025 contest: `iopddl FILE|FOLDER...
// --results iopddl_final_results.csv --seconds 60`. Prints a line an instance: our cost, the best
// that any team had, and their ratio capped at 1; then the mean of the ratios.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/instance_files.h"
#include "bench/iopddl/instance.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "passes/parallel/strategy_solver.h"

namespace millrace {
namespace {

constexpr std::string_view kInstanceEndings[] = {".json", ".json.gz"};

struct IopddlFlags {
  std::vector<std::string> paths;
  std::string results;
  StrategySolverOptions solver = {.max_work = INT64_MAX, .max_seconds = 60, .threads = 2};
};

// "folder/A.json.gz" is instance "A".
std::string InstanceName(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename();
  return name.substr(0, name.find('.'));
}

// The ratio of the best published cost to ours, capped at 1; 0 when nothing was found.
absl::StatusOr<double> SolveInstance(const std::string& file, const IopddlFlags& flags,
                                     const std::map<std::string, int64_t>& published) {
  MILLRACE_ASSIGN_OR_RETURN(const StrategyProblem problem, LoadIopddlInstance(file));
  const std::string name = InstanceName(file);
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<StrategySolution> solved = SolveStrategies(problem, flags.solver);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%-10s %7zu %7zu", name.c_str(), problem.nodes.size(), problem.edges.size());
  if (!solved.ok()) {
    std::printf("  %s\n", std::string(solved.status().message()).c_str());
    return 0.0;
  }
  std::printf(" %7d %16lld", solved->num_variables, static_cast<long long>(solved->outcome.cost));
  const auto best = published.find(name);
  double ratio = 1;
  if (best != published.end()) {
    const double cost = static_cast<double>(std::max<int64_t>(1, solved->outcome.cost));
    const double exact = static_cast<double>(best->second) / cost;
    ratio = std::min(1.0, exact);
    std::printf(" %16lld %8.5f", static_cast<long long>(best->second), exact);
  } else {
    std::printf(" %16s %8s", "-", "-");
  }
  std::printf(" %16.0f %8.2f s\n", solved->lower_bound, seconds.count());
  std::fflush(stdout);
  return ratio;
}

absl::Status RunIopddl(const IopddlFlags& flags) {
  std::map<std::string, int64_t> published;
  if (!flags.results.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string csv, ReadFile(flags.results));
    MILLRACE_ASSIGN_OR_RETURN(published, ParseIopddlResults(csv, flags.results));
  }
  std::printf("%-10s %7s %7s %7s %16s %16s %8s %16s %10s\n", "instance", "nodes", "edges", "vars",
              "cost", "best published", "ratio", "lower bound", "time");
  double sum = 0;
  const std::vector<std::string> files = InstanceFiles(flags.paths, kInstanceEndings);
  for (const std::string& file : files) {
    MILLRACE_ASSIGN_OR_RETURN(const double ratio, SolveInstance(file, flags, published));
    sum += ratio;
  }
  if (!files.empty()) std::printf("score %.5f\n", sum / static_cast<double>(files.size()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::IopddlFlags flags;
  CLI::App app("Solves instances of the ASPLOS 2025 contest on intra-operator parallelism");
  app.add_option("paths", flags.paths, "Files, or folders of .json and .json.gz")->required();
  app.add_option("--results", flags.results, "The contest's table of results (CSV)");
  app.add_option("--seconds", flags.solver.max_seconds, "For each instance; 0: no clock [60]");
  app.add_option("--max-work", flags.solver.max_work, "Elementary steps of a thread [no limit]");
  app.add_option("--threads", flags.solver.threads, "Searches at once [2]")
      ->check(CLI::Range(1, 64));
  app.add_option("--seed", flags.solver.seed, "Of random choices [1]");
  CLI11_PARSE(app, argc, argv);
  if (flags.solver.max_seconds <= 0 && flags.solver.max_work == INT64_MAX) {
    std::fprintf(stderr, "error: without a clock the search needs --max-work\n");
    return 2;
  }
  const absl::Status status = millrace::RunIopddl(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return millrace::ExitCode(status);
}
