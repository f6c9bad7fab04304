// Values whose size only the data decide, and what can be made of them: all of it runs by HostCall.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/evaluate_graph.h"
#include "tests/run/run_graph.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

Tensor X() { return Tensor::Of<float>({2, 3}, {0, 5, 0, 0, 6, 7}); }

std::string InferError(std::string_view text) {
  const absl::StatusOr<Graph> graph = TypedGraph(text);
  return graph.ok() ? "" : std::string(graph.status().message());
}

TEST(Bounded, GathersWhatIsNotZero) {
  const std::vector<Tensor> out = OutputsOf(R"(
    input x : f32[2,3]
    n = NonZero(x)
    t = Transpose(n)
    v = GatherND(x, t)
    d = Add(v, v)
    output d)",
                                            {{"x", X()}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(BitEqual(out[0], Tensor::Of<float>({3}, {10, 12, 14})));
}

// Its size is not known, but the size of its shape is: what reads that runs as ever.
TEST(Bounded, ShapesAreOfKnownSize) {
  constexpr char kText[] = R"(
    input x : f32[2,3]
    n = NonZero(x)
    s = Shape(n)
    two : i64[] = Size(n)
    d = Add(s, two)
    output d)";
  const absl::StatusOr<Graph> graph = TypedGraph(kText);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->value(graph->node(NodeId(0)).outputs[0]).bounded);
  EXPECT_FALSE(graph->value(graph->node(NodeId(1)).outputs[0]).bounded);
  EXPECT_FALSE(graph->value(graph->outputs[0]).bounded);
  const std::vector<Tensor> out = OutputsOf(kText, {{"x", X()}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(BitEqual(out[0], Tensor::Of<int64_t>({2}, {8, 9})));
}

TEST(Bounded, ReductionsEndIt) {
  const std::vector<Tensor> out =
      OutputsOf(R"(
    input x : f32[2,3]
    input keep : bool[2]
    c = Compress(x, keep) {axis = 0}
    s = ReduceSum(c) {keepdims = 0}
    output s)",
                {{"x", X()}, {"keep", Tensor::Of<bool>({2}, {false, true})}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_TRUE(BitEqual(out[0], Tensor::Scalar<float>(13)));
}

TEST(Bounded, UniqueValuesAndTheirCounts) {
  const std::vector<Tensor> out = OutputsOf(R"(
    input x : f32[2,3]
    y, _, inverse, counts = Unique(x)
    back = Gather(y, inverse)
    output y
    output counts
    output back)",
                                            {{"x", X()}});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_TRUE(BitEqual(out[0], Tensor::Of<float>({4}, {0, 5, 6, 7})));
  EXPECT_TRUE(BitEqual(out[1], Tensor::Of<int64_t>({4}, {3, 1, 1, 1})));
  EXPECT_TRUE(BitEqual(out[2], Tensor::Of<float>({6}, {0, 5, 0, 0, 6, 7})));
}

TEST(Bounded, NothingFoundIsFine) {
  const std::vector<Tensor> out = OutputsOf(R"(
    input x : f32[2,3]
    n = NonZero(x)
    t = Transpose(n)
    v = GatherND(x, t)
    m = Concat(v, v) {axis = 0}
    output m)",
                                            {{"x", Tensor::Zeros({DType::kF32, {2, 3}})}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].shape(), Shape({0}));
}

// One branch's result is of known size, the other's is not.
TEST(Bounded, BranchesMayDiffer) {
  constexpr char kText[] = R"(
    input x : f32[2,3]
    input c : bool[]
    y = If(c, x) graph then_branch {
      input a : f32[2,3]
      n = NonZero(a)
      output n
    } graph else_branch {
      input a : f32[2,3]
      const k : i64[2,6] = splat 7
      m = Add(k, k)
      output m
    }
    t = Transpose(y)
    output t)";
  for (const bool c : {true, false}) {
    const std::vector<Tensor> out = OutputsOf(kText, {{"x", X()}, {"c", Tensor::Scalar<bool>(c)}});
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].shape(), c ? Shape({3, 2}) : Shape({6, 2}));
  }
}

// As many trips as there are elements: a count that only the run knows.
TEST(Bounded, CountsCanBeTripCounts) {
  const std::vector<Tensor> out = OutputsOf(R"(
    input x : f32[2,3]
    const one : i64[] = splat 1
    n = NonZero(x)
    s = Shape(n)
    m = Gather(s, one)
    const zero : f32[] = splat 0
    z, ns = Loop(m, _, zero) {max_trips = 6} graph body {
      input i : i64[]
      input c : bool[]
      input v : f32[]
      const step : f32[] = splat 2.0
      t = Add(v, step)
      j = Identity(i)
      output c
      output t
      output j
    }
    output z
    output ns)",
                                            {{"x", X()}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(BitEqual(out[0], Tensor::Scalar<float>(6)));
  EXPECT_TRUE(BitEqual(out[1], Tensor::Of<int64_t>({3}, {0, 1, 2})));
}

TEST(Bounded, WhatNeedsASizeWhilePlanningIsRefusedWithTheReason) {
  EXPECT_THAT(InferError(R"(
    input x : f32[2,3]
    n = NonZero(x)
    s = Shape(n)
    e = ConstantOfShape(s)
    output e)"),
              HasSubstr("must be known while planning, but"));
  EXPECT_THAT(InferError(R"(
    input x : f32[2,3]
    n = NonZero(x)
    z = Scan(n) {num_scan_inputs = 1} graph body {
      input a : i64[6]
      b = Neg(a)
      output b
    }
    output z)"),
              HasSubstr("the number of trips over 'n' would be known only at run time"));
  EXPECT_THAT(InferError(R"(
    input x : f32[2,3]
    const m : i64[] = splat 2
    z = Loop(m, _, x) {num_captures = 1} graph body {
      input i : i64[]
      input c : bool[]
      input a : f32[2,3]
      n = NonZero(a)
      output c
      output n
    }
    output z)"),
              HasSubstr("elements 'n' have a size known only at run time"));
}

// Sizes that do not go together are found when the data are there, and named.
TEST(Bounded, SizesThatDoNotFitAreErrorsOfTheRun) {
  const absl::StatusOr<Graph> graph = TypedGraph(R"(
    input x : f32[2,3]
    input k : i64[6]
    n = NonZero(x)
    s = Add(n, k)
    output s)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto results = RunGraph(*graph, {{{"x", X()}, {"k", Tensor::Zeros({DType::kI64, {6}})}}});
  EXPECT_EQ(ExitCode(results.status()), 3);
  EXPECT_THAT(std::string(results.status().message()),
              HasSubstr("do not broadcast: dims 3 and 6 differ"));
}

}  // namespace
}  // namespace millrace
