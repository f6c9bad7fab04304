#include "passes/schedule/schedule_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "passes/schedule/schedule_problem.h"
#include "tests/passes/typed_graph.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Results(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(graph.value(node.outputs[0]).name);
  return names;
}

// Two branches that grow and shrink, side by side as given.
constexpr char kBranches[] = R"(
  input x : f32[1,1]
  param w : f32[1,64] = init ones
  param v : f32[64,1] = init ones
  a = MatMul(x, w)
  b = MatMul(x, w)
  c = MatMul(a, v)
  d = MatMul(b, v)
  y = Add(c, d)
  output y)";

TEST(OrderGraphForMemory, FinishesABranchBeforeTheNext) {
  Graph graph = TypedGraph(kBranches);
  const absl::StatusOr<ScheduledPeaks> peaks = OrderGraphForMemory(graph);
  ASSERT_TRUE(peaks.ok()) << peaks.status();
  EXPECT_THAT(Results(graph), ElementsAre("a", "c", "b", "d", "y"));
  EXPECT_EQ(peaks->before_bytes, 256 + 256 + 4);
  EXPECT_EQ(peaks->after_bytes, 4 + 256 + 4);  // x or c, a branch's middle, its end
  EXPECT_EQ(peaks->lower_bound_bytes, peaks->after_bytes);
  Diagnostics diagnostics;
  VerifyGraph(graph, diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.ToStatus();
  EXPECT_EQ(OrderGraphForMemory(graph)->before_bytes, peaks->after_bytes);  // and stays
}

TEST(OrderGraphForMemory, WhatMustComeAfterStaysAfter) {
  Graph graph = TypedGraph(kBranches);
  graph.nodes[2].after = {NodeId(1)};
  graph.nodes[3].after = {NodeId(0)};
  ASSERT_TRUE(OrderGraphForMemory(graph).ok());
  EXPECT_THAT(Results(graph), ElementsAre("a", "b", "c", "d", "y"));
}

TEST(OrderGraphForMemory, NodesWithEffectsKeepTheirOrder) {
  GraphBuilder builder;
  const ValueId x = builder.Input("x", {DType::kF32, Shape{1}});
  // What an op nobody knows does, nobody knows.
  builder.Op("x.first", {x});
  builder.Op("Relu", {x});
  builder.Op("x.second", {x});
  Graph graph = std::move(builder).Build();
  for (Value& value : graph.values) value.type = {DType::kF32, Shape{1}};
  const absl::StatusOr<ScheduleProblem> problem = ScheduleProblemOf(graph);
  ASSERT_TRUE(problem.ok());
  EXPECT_THAT(problem->edges, ElementsAre(TaskEdge{0, 2}));
}

TEST(OrderGraphForMemory, ReachesIntoBodies) {
  Graph graph = TypedGraph(R"(
    input p : bool[]
    input x : f32[1,1]
    param w : f32[1,64] = init ones
    param v : f32[64,1] = init ones
    y = If(p, x, w, v) graph then_branch {
      input i : f32[1,1]
      input k : f32[1,64]
      input m : f32[64,1]
      a = MatMul(i, k)
      b = MatMul(i, k)
      c = MatMul(a, m)
      d = MatMul(b, m)
      e = Add(c, d)
      output e
    } graph else_branch {
      input i : f32[1,1]
      input k : f32[1,64]
      input m : f32[64,1]
      r = Relu(i)
      output r
    }
    output y)");
  const absl::StatusOr<ScheduledPeaks> peaks = OrderGraphForMemory(graph);
  ASSERT_TRUE(peaks.ok()) << peaks.status();
  EXPECT_THAT(Results(graph.nodes[0].subgraphs[0].graph), ElementsAre("a", "c", "b", "d", "e"));
  // The body's needs, beside p, x and y. Its output lies on y.
  EXPECT_EQ(peaks->before_bytes, 256 + 256 + 4 + 1 + 4 + 4);
  EXPECT_EQ(peaks->after_bytes, 256 + 4 + 4 + 1 + 4 + 4);
}

TEST(OrderGraphForMemory, UpdatesAndOutputsLiveToTheEnd) {
  const Graph graph = TypedGraph(R"(
    input x : f32[2]
    param p : f32[2] = init zeros
    u = Add(p, x)
    r = Relu(x)
    s = Neg(r)
    update p <- u
    output x
    output s)");
  const absl::StatusOr<ScheduleProblem> problem = ScheduleProblemOf(graph);
  ASSERT_TRUE(problem.ok());
  ASSERT_EQ(problem->results.size(), 4u);  // x, u, r, s
  EXPECT_EQ(problem->results[0].producer, -1);
  EXPECT_THAT(problem->results[0].readers, ElementsAre(0, 1));
  EXPECT_TRUE(problem->results[0].is_kept);
  EXPECT_TRUE(problem->results[1].is_kept);
  EXPECT_FALSE(problem->results[2].is_kept);
  EXPECT_TRUE(problem->results[3].is_kept);
  EXPECT_TRUE(VerifyScheduleProblem(*problem).ok());
}

TEST(OrderGraphForMemory, RefusesWhatNoMemoryHolds) {
  GraphBuilder builder;
  const TensorType huge{DType::kF32, Shape{int64_t{1} << 46}};
  ValueId x = builder.Input("x", huge);
  for (int i = 0; i < 5000; ++i) x = builder.Op("Relu", {x});
  builder.Output(x);
  Graph graph = std::move(builder).Build();
  ASSERT_TRUE(InferTypes(graph).ok());
  EXPECT_FALSE(OrderGraphForMemory(graph).ok());
}

TEST(ScheduleGoal, Names) {
  EXPECT_EQ(*ParseScheduleGoal("memory"), ScheduleGoal::kMemory);
  EXPECT_EQ(*ParseScheduleGoal("time"), ScheduleGoal::kTime);
  EXPECT_THAT(ParseScheduleGoal("speed").status().message(), HasSubstr("'time' and 'memory'"));
}

}  // namespace
}  // namespace millrace
