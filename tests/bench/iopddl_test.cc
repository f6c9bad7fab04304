// Instances of the contest on intra-operator parallelism: reading them, and solving one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/iopddl/instance.h"
#include "passes/parallel/strategy_solver.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(IopddlTest, ReadsAnInstance) {
  const auto problem = ParseIopddlInstance(
      R"({"problem": {"name": "small", "usage_limit": 50,
          "nodes": {"intervals": [[5, 10], []], "costs": [[15, 20], [7]], "usages": [[10, 25], [1]]},
          "edges": {"nodes": [[0, 1]], "costs": [[30, 1000000000000000000]]}}})",
      "small.json");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  EXPECT_EQ(problem->memory_limit, 50);
  ASSERT_EQ(problem->nodes.size(), 2);
  EXPECT_THAT(problem->nodes[0].usages, ElementsAre(10, 25));
  EXPECT_EQ(problem->nodes[0].end, 10);
  EXPECT_EQ(problem->edges[0].costs[1], kForbiddenCost);
}

TEST(IopddlTest, SaysWhereAnInstanceIsWrong) {
  const auto error = [](std::string json) {
    const auto problem = ParseIopddlInstance(std::move(json), "bad.json");
    EXPECT_EQ(ExitCode(problem.status()), 3);
    return std::string(problem.status().message());
  };
  EXPECT_THAT(error("{}"), HasSubstr("problem"));
  EXPECT_THAT(error(R"({"problem": {"nodes": {"intervals": [[1]], "costs": [[1]], "usages": [[1]]},
                       "edges": {"nodes": [], "costs": []}}})"),
              HasSubstr("expected two moments"));
  EXPECT_THAT(error(R"({"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[1]],
                       "usages": [[-1]]}, "edges": {"nodes": [], "costs": []}}})"),
              HasSubstr("bad.json:2"));
  EXPECT_THAT(error(R"({"problem": {"nodes": {"intervals": [[0, 1]], "costs": [[1]],
                       "usages": [[1]]}, "edges": {"nodes": [[0, 1]], "costs": [[1]]}}})"),
              HasSubstr("expected two of 1 nodes"));
}

TEST(IopddlTest, TheBestOfAllTeamsCounts) {
  const auto best =
      ParseIopddlResults("TEAM #,A,B\nteam01,30,5\nteam02,20,\nteam03,,7e19\n", "r.csv");
  ASSERT_TRUE(best.ok());
  EXPECT_EQ(best->at("A"), 20);
  EXPECT_EQ(best->at("B"), 5);
}

TEST(IopddlTest, SolvesInstanceGAsWellAsTheBestTeam) {
  const auto problem = LoadIopddlInstance(MILLRACE_SOURCE_DIR "/tests/data/iopddl/G.json.gz");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  const auto solved = SolveStrategies(*problem, {.max_work = 1'000'000'000});
  ASSERT_TRUE(solved.ok()) << solved.status().message();
  EXPECT_LE(solved->outcome.cost, 217'039);
  EXPECT_LE(solved->outcome.peak_bytes, problem->memory_limit);
  EXPECT_GT(solved->lower_bound, 0.99 * 217'039);
}

}  // namespace
}  // namespace millrace
