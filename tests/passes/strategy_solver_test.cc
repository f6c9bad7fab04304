// The strategy solver against every choice there is, on small random problems.
#include "passes/parallel/strategy_solver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "passes/parallel/strategy_messages.h"
#include "passes/parallel/strategy_random.h"
#include "passes/parallel/strategy_reduction.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct RandomShape {
  int32_t nodes = 6, strategies = 3, edges = 8;
  int32_t forbidden_percent = 10;
  bool functions = false;  // some edges let each strategy of one end have one partner only
};

StrategyProblem RandomStrategyProblem(StrategyRandom& random, const RandomShape& shape) {
  StrategyProblem problem;
  for (int32_t i = 0; i < shape.nodes; ++i) {
    StrategyNode node;
    const int32_t size = 1 + random.Below(shape.strategies);
    for (int32_t s = 0; s < size; ++s) {
      node.costs.push_back(random.Below(100));
      node.usages.push_back(random.Below(50));
    }
    node.begin = random.Below(10);
    node.end = node.begin + random.Below(6);
    problem.nodes.push_back(node);
  }
  for (int32_t e = 0; e < shape.edges; ++e) {
    StrategyEdge edge;
    edge.from = random.Below(shape.nodes);
    edge.to = random.Below(shape.nodes);
    if (edge.from == edge.to) continue;
    const size_t rows = problem.nodes[edge.from].costs.size();
    const size_t columns = problem.nodes[edge.to].costs.size();
    const bool function = shape.functions && rows == columns && random.Below(2) == 0;
    const size_t shift = static_cast<size_t>(random.Below(static_cast<int32_t>(columns)));
    for (size_t a = 0; a < rows; ++a) {
      for (size_t b = 0; b < columns; ++b) {
        const bool forbidden =
            function ? (a + shift) % columns != b : random.Below(100) < shape.forbidden_percent;
        edge.costs.push_back(forbidden ? kForbiddenCost : random.Below(100));
      }
    }
    problem.edges.push_back(edge);
  }
  problem.memory_limit = 30 + random.Below(100);
  return problem;
}

// The least cost of all choices that fit; nullopt: none fits.
std::optional<int64_t> LeastCost(const StrategyProblem& problem) {
  std::optional<int64_t> least;
  std::vector<int32_t> choice(problem.nodes.size(), 0);
  while (true) {
    const StrategyOutcome outcome = EvaluateStrategies(problem, choice);
    if (IsFeasible(problem, outcome)) least = std::min(least.value_or(INT64_MAX), outcome.cost);
    size_t i = 0;
    for (; i < choice.size(); ++i) {
      if (++choice[i] < static_cast<int32_t>(problem.nodes[i].costs.size())) break;
      choice[i] = 0;
    }
    if (i == choice.size()) return least;
  }
}

constexpr StrategySolverOptions kQuick = {.max_work = 300'000};

// Whether the choice found is the best there is; that it is allowed, and near it, is expected.
bool SolvesOptimally(const StrategyProblem& problem) {
  const std::optional<int64_t> least = LeastCost(problem);
  const absl::StatusOr<StrategySolution> solved = SolveStrategies(problem, kQuick);
  if (!least) {
    EXPECT_EQ(ExitCode(solved.status()), 4) << solved.status().message();
    return true;
  }
  EXPECT_TRUE(solved.ok()) << solved.status().message();
  if (!solved.ok()) return false;
  EXPECT_TRUE(IsFeasible(problem, EvaluateStrategies(problem, solved->choice)));
  EXPECT_GE(solved->outcome.cost, *least);
  EXPECT_LE(static_cast<double>(solved->outcome.cost), 1.1 * static_cast<double>(*least));
  EXPECT_LE(solved->lower_bound, static_cast<double>(*least) + 1e-6);
  return solved->outcome.cost == *least;
}

TEST(StrategySolverTest, NearlyAlwaysFindsTheOptimumOfSmallProblems) {
  StrategyRandom random(7);
  int optimal = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    optimal += SolvesOptimally(RandomStrategyProblem(random, {}));
  }
  EXPECT_GE(optimal, 147);
}

TEST(StrategySolverTest, NearlyAlwaysFindsTheOptimumWhereNodesDetermineEachOther) {
  StrategyRandom random(8);
  int optimal = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    optimal +=
        SolvesOptimally(RandomStrategyProblem(random, {.nodes = 7, .edges = 9, .functions = true}));
  }
  EXPECT_GE(optimal, 147);
}

TEST(StrategySolverTest, NearlyAlwaysFindsTheOptimumOfDenseProblems) {
  StrategyRandom random(9);
  int optimal = 0;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    optimal += SolvesOptimally(RandomStrategyProblem(
        random, {.nodes = 8, .strategies = 3, .edges = 28, .forbidden_percent = 3}));
  }
  EXPECT_GE(optimal, 58);
}

TEST(StrategySolverTest, BoundsOfMessagesNeverExceedTheOptimum) {
  StrategyRandom random(11);
  for (int i = 0; i < 100; ++i) {
    StrategyProblem problem = RandomStrategyProblem(random, {.nodes = 7, .edges = 14});
    problem.memory_limit = INT64_MAX / 4;
    const std::optional<int64_t> least = LeastCost(problem);
    const ReducedStrategies reduced = ReduceStrategies(problem);
    if (!least || reduced.impossible_node >= 0) continue;
    std::vector<double> unary;
    std::vector<int32_t> offset;
    for (const StrategyVariable& variable : reduced.variables) {
      offset.push_back(static_cast<int32_t>(unary.size()));
      unary.insert(unary.end(), variable.costs.begin(), variable.costs.end());
    }
    StrategyMessages messages(reduced);
    double before = -1e300;
    for (int pass = 0; pass < 20; ++pass) {
      const double bound = messages.Pass(unary, offset);
      EXPECT_LE(bound, static_cast<double>(*least) + 1e-6);
      EXPECT_GE(bound, before - 1e-6);
      before = bound;
    }
  }
}

TEST(StrategySolverTest, TheSameBudgetGivesTheSameChoice) {
  StrategyRandom random(12);
  const StrategyProblem problem = RandomStrategyProblem(
      random, {.nodes = 300, .strategies = 6, .edges = 900, .forbidden_percent = 0});
  StrategyProblem relaxed = problem;
  relaxed.memory_limit = 2500;
  const StrategySolverOptions options = {.max_work = 3'000'000, .threads = 2};
  const auto a = SolveStrategies(relaxed, options), b = SolveStrategies(relaxed, options);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->choice, b->choice);
  EXPECT_EQ(a->work, b->work);
}

TEST(StrategySolverTest, ReductionJoinsNodesThatDetermineEachOther) {
  StrategyProblem problem;
  problem.nodes = {{{1, 2}, {3, 5}, 0, 2}, {{10, 20}, {7, 7}, 1, 3}, {{0}, {4}, 0, 9}};
  problem.edges = {{0, 1, {kForbiddenCost, 5, 6, kForbiddenCost}}, {1, 2, {100, 200}}};
  const ReducedStrategies reduced = ReduceStrategies(problem);
  ASSERT_EQ(reduced.variables.size(), 1);
  // Node 0's strategy 0 goes with node 1's strategy 1: 1 + 20 + 5 + 200; the other: 2 + 10 + 6 +
  // 100.
  EXPECT_THAT(reduced.variables[0].costs, ElementsAre(226, 118));
  EXPECT_THAT(ExpandStrategies(reduced, std::vector<int32_t>{1}), ElementsAre(1, 0, 0));
  // Moments 0 and 1 begin something, but nothing ends between them.
  EXPECT_THAT(reduced.fixed_usage, ElementsAre(3 + 7 + 4));
}

TEST(StrategySolverTest, SaysWhichNodeHasNothingLeft) {
  StrategyProblem problem;
  problem.nodes = {{{1, 2}, {0, 0}, 0, 1}, {{kForbiddenCost}, {0}, 0, 1}};
  const auto solved = SolveStrategies(problem, kQuick);
  EXPECT_EQ(ExitCode(solved.status()), 4);
  EXPECT_THAT(std::string(solved.status().message()), HasSubstr("node 1"));
}

TEST(StrategySolverTest, SaysHowMuchMemoryIsMissing) {
  StrategyProblem problem;
  problem.nodes = {{{1, 2}, {60, 50}, 0, 2}, {{1, 2}, {60, 55}, 1, 3}};
  problem.memory_limit = 100;
  const auto solved = SolveStrategies(problem, kQuick);
  EXPECT_EQ(ExitCode(solved.status()), 4);
  EXPECT_THAT(std::string(solved.status().message()), HasSubstr("takes 105"));
}

TEST(StrategySolverTest, RefusesProblemsThatDoNotFitTogether) {
  StrategyProblem problem;
  problem.nodes = {{{1, 2}, {1, 1}, 0, 1}, {{1}, {1}, 0, 1}};
  problem.edges = {{0, 1, {1, 2, 3}}};
  EXPECT_EQ(ExitCode(SolveStrategies(problem).status()), 3);
  problem.edges = {{0, 2, {1, 2}}};
  EXPECT_EQ(ExitCode(SolveStrategies(problem).status()), 3);
  problem.edges.clear();
  problem.nodes[0].usages = {1};
  EXPECT_EQ(ExitCode(SolveStrategies(problem).status()), 3);
}

TEST(StrategySolverTest, AnEmptyProblemHasAnEmptyChoice) {
  const auto solved = SolveStrategies({}, kQuick);
  ASSERT_TRUE(solved.ok());
  EXPECT_TRUE(solved->choice.empty());
}

}  // namespace
}  // namespace millrace
