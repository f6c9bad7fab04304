// Loops, planned and run. Each graph is also evaluated without a plan, and the values that say what
// it ought to do are worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/evaluate_graph.h"
#include "tests/run/run_graph.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Values(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(tensor.AsDouble(i));
  return values;
}

Tensor I64(int64_t value) { return Tensor::Scalar<int64_t>(value); }

// s: what v was before each trip; z = x doubled and increased by the trip's number, m times.
constexpr char kCounted[] = R"(
  input x : f32[2]
  input m : i64[]
  z, s = Loop(m, _, x) {max_trips = 4} graph body {
    input n : i64[]
    input c : bool[]
    input v : f32[2]
    f = Cast(n) {to = "f32"}
    u = Add(v, v)
    t = Add(u, f)
    i = Identity(v)
    output c
    output t
    output i
  }
  output z
  output s)";

TEST(Loop, CountsCarriesAndStacks) {
  const NamedTensors inputs = {{"x", Tensor::Of<float>({2}, {1, 10})}, {"m", I64(3)}};
  const std::vector<Tensor> out = OutputsOf(kCounted, inputs);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(Values(out[0]), ElementsAre(12, 84));  // 1, 2, 5, 12
  EXPECT_EQ(out[1].shape(), Shape({3, 2}));
  EXPECT_THAT(Values(out[1]), ElementsAre(1, 10, 2, 20, 5, 41));
}

TEST(Loop, NoTripsLeaveWhatCameInAndAnEmptyStack) {
  for (const int64_t m : {0, -7}) {
    const std::vector<Tensor> out =
        OutputsOf(kCounted, {{"x", Tensor::Of<float>({2}, {1, 10})}, {"m", I64(m)}});
    ASSERT_EQ(out.size(), 2u);
    EXPECT_THAT(Values(out[0]), ElementsAre(1, 10));
    EXPECT_EQ(out[1].shape(), Shape({0, 2}));
  }
}

TEST(Loop, StepsMakeTripsOfTheirOwnNumber) {
  std::vector<NamedTensors> steps;
  for (const int64_t m : {2, 0, 4, 1}) {
    steps.push_back({{"x", Tensor::Of<float>({2}, {1, static_cast<float>(m)})}, {"m", I64(m)}});
  }
  ExpectRunsAsItMeans(kCounted, steps);
}

TEST(Loop, MoreTripsThanPlannedForAreAnError) {
  const absl::StatusOr<Graph> graph = TypedGraph(kCounted);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto results = RunGraph(*graph, {{{"x", Tensor::Of<float>({2}, {1, 10})}, {"m", I64(5)}}});
  EXPECT_EQ(ExitCode(results.status()), 3);
  EXPECT_THAT(std::string(results.status().message()),
              HasSubstr("more than 4 trips, the bound it was planned with"));
}

// z = x doubled until it is at least 10.
constexpr char kWhile[] = R"(
  input x : f32[]
  input c : bool[]
  z = Loop(_, c, x) graph body {
    input n : i64[]
    input k : bool[]
    input v : f32[]
    const limit : f32[] = splat 10.0
    t = Add(v, v)
    go = Greater(limit, t)
    output go
    output t
  }
  output z)";

TEST(Loop, GoesOnWhileItsConditionHolds) {
  const Tensor x = Tensor::Scalar<float>(1.5);
  EXPECT_THAT(Values(OutputsOf(kWhile, {{"x", x}, {"c", Tensor::Scalar<bool>(true)}}).at(0)),
              ElementsAre(12));
  EXPECT_THAT(Values(OutputsOf(kWhile, {{"x", x}, {"c", Tensor::Scalar<bool>(false)}}).at(0)),
              ElementsAre(1.5));
  // Once begun, a trip is made to its end.
  EXPECT_THAT(Values(OutputsOf(kWhile, {{"x", Tensor::Scalar<float>(100)},
                                        {"c", Tensor::Scalar<bool>(true)}})
                         .at(0)),
              ElementsAre(200));
}

TEST(Loop, CarriedValuesChangePlacesAndAnUnwantedOneIsStillCarried) {
  const std::vector<Tensor> out =
      OutputsOf(R"(
    input x : f32[]
    input y : f32[]
    const m : i64[] = splat 3
    a, _, s = Loop(m, _, x, y) graph body {
      input n : i64[]
      input c : bool[]
      input p : f32[]
      input q : f32[]
      i = Identity(p)
      output c
      output q
      output p
      output i
    }
    output a
    output s)",
                {{"x", Tensor::Scalar<float>(1)}, {"y", Tensor::Scalar<float>(2)}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(Values(out[0]), ElementsAre(2));
  EXPECT_THAT(Values(out[1]), ElementsAre(1, 2, 1));
}

// A body may do nothing at all.
TEST(Loop, BodiesPassThrough) {
  const std::vector<Tensor> out =
      OutputsOf(R"(
    input x : f32[2]
    input w : f32[2]
    const m : i64[] = splat 2
    z, s = Loop(m, _, x, w) {num_captures = 1} graph body {
      input n : i64[]
      input c : bool[]
      input v : f32[2]
      input k : f32[2]
      output c
      output v
      output k
    }
    output z
    output s)",
                {{"x", Tensor::Of<float>({2}, {1, 2})}, {"w", Tensor::Of<float>({2}, {3, 4})}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(Values(out[0]), ElementsAre(1, 2));
  EXPECT_THAT(Values(out[1]), ElementsAre(3, 4, 3, 4));
}

// The positions of what is not zero, doubled in each trip: sizes stay those of the data.
TEST(Loop, CarriesValuesOfUnknownSize) {
  const std::vector<Tensor> out = OutputsOf(R"(
    input x : f32[2,3]
    const m : i64[] = splat 2
    h = NonZero(x)
    z = Loop(m, _, h) graph body {
      input n : i64[]
      input c : bool[]
      input v : i64[2,6]
      t = Add(v, v)
      output c
      output t
    }
    output z)",
                                            {{"x", Tensor::Of<float>({2, 3}, {0, 5, 0, 0, 6, 7})}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].shape(), Shape({2, 3}));
  EXPECT_THAT(Values(out[0]), ElementsAre(0, 4, 4, 4, 4, 8));
}

TEST(Loop, ParamsAreUpdatedFromWhatALoopGives) {
  const absl::StatusOr<Graph> graph = TypedGraph(R"(
    input x : f32[]
    param p : f32[] = init ones
    const m : i64[] = splat 3
    z = Loop(m, _, p, x) {num_captures = 1} graph body {
      input n : i64[]
      input c : bool[]
      input v : f32[]
      input k : f32[]
      t = Mul(v, k)
      output c
      output t
    }
    update p <- z
    output z)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const NamedTensors two = {{"x", Tensor::Scalar<float>(2)}};
  const auto results = RunGraph(*graph, {two, two});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(Values((*results)[0][0]), ElementsAre(8));
  EXPECT_THAT(Values((*results)[1][0]), ElementsAre(64));
}

// --- Scan ----------------------------------------------------------------------------------------

TEST(Scan, GivesRunningSums) {
  const std::vector<Tensor> out = OutputsOf(R"(
    input h : f32[2]
    input q : f32[3,2]
    z, s = Scan(h, q) {num_scan_inputs = 1} graph body {
      input a : f32[2]
      input e : f32[2]
      t = Add(a, e)
      u = Identity(t)
      output t
      output u
    }
    output z
    output s)",
                                            {{"h", Tensor::Of<float>({2}, {0, 0})},
                                             {"q", Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(Values(out[0]), ElementsAre(9, 12));
  EXPECT_THAT(Values(out[1]), ElementsAre(1, 2, 4, 6, 9, 12));
}

constexpr char kAxes[] = R"(
  input h : f32[2]
  input q : f32[2,3]
  input r : f32[3,1]
  z, a, b = Scan(h, q, r) {num_scan_inputs = 2, scan_input_axes = [1, -2], scan_input_directions = [1, 0], scan_output_axes = [-1, 0], scan_output_directions = [0, 1]} graph body {
    input s : f32[2]
    input e : f32[2]
    input g : f32[1]
    t = Add(s, e)
    u = Mul(e, g)
    i = Identity(g)
    output t
    output u
    output i
  }
  output z
  output a
  output b)";

TEST(Scan, FollowsAxesAndDirections) {
  const std::vector<Tensor> out =
      OutputsOf(kAxes, {{"h", Tensor::Of<float>({2}, {100, 200})},
                        {"q", Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                        {"r", Tensor::Of<float>({3, 1}, {10, 20, 30})}});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_THAT(Values(out[0]), ElementsAre(106, 215));
  // Trip 0 has the last column of q and the first row of r: [3, 6] * 10.
  EXPECT_EQ(out[1].shape(), Shape({2, 3}));
  EXPECT_THAT(Values(out[1]), ElementsAre(30, 40, 30, 60, 100, 120));
  EXPECT_EQ(out[2].shape(), Shape({3, 1}));
  EXPECT_THAT(Values(out[2]), ElementsAre(30, 20, 10));
}

TEST(Scan, OverNothingGivesEmptyStacks) {
  const std::vector<Tensor> out =
      OutputsOf(R"(
    input h : f32[2]
    input q : f32[0,2]
    z, s = Scan(h, q) {num_scan_inputs = 1, scan_output_axes = [1]} graph body {
      input a : f32[2]
      input e : f32[2]
      t = Add(a, e)
      u = Relu(t)
      output t
      output u
    }
    output z
    output s)",
                {{"h", Tensor::Of<float>({2}, {7, 8})}, {"q", Tensor::Of<float>({0, 2}, {})}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(Values(out[0]), ElementsAre(7, 8));
  EXPECT_EQ(out[1].shape(), Shape({2, 0}));
}

// --- All of it, nested ---------------------------------------------------------------------------

// For each e: v = s; three times: v = v + e if c, else e. s = v.
constexpr char kNested[] = R"(
  input h : f32[2]
  input q : f32[4,2]
  input c : bool[]
  z, y = Scan(h, q, c) {num_scan_inputs = 1, num_captures = 1} graph body {
    input s : f32[2]
    input e : f32[2]
    input d : bool[]
    const m : i64[] = splat 3
    t = Loop(m, _, s, e, d) {num_captures = 2} graph body {
      input n : i64[]
      input go : bool[]
      input v : f32[2]
      input k : f32[2]
      input b : bool[]
      w = If(b, v, k) graph then_branch {
        input x : f32[2]
        input y : f32[2]
        p = Add(x, y)
        output p
      } graph else_branch {
        input x : f32[2]
        input y : f32[2]
        output y
      }
      r = Relu(w)
      output go
      output r
    }
    i = Identity(t)
    output t
    output i
  }
  output z
  output y)";

TEST(Nested, BranchInLoopInScan) {
  for (const bool c : {true, false}) {
    NamedTensors inputs = {{"h", Tensor::Of<float>({2}, {1, -1})},
                           {"q", Tensor::Of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                           {"c", Tensor::Scalar<bool>(c)}};
    const std::vector<Tensor> out = OutputsOf(kNested, inputs);
    ASSERT_EQ(out.size(), 2u);
    if (c) {
      EXPECT_THAT(Values(out[0]), ElementsAre(49, 59));
    } else {
      EXPECT_THAT(Values(out[0]), ElementsAre(7, 8));
    }
    EXPECT_EQ(out[1].shape(), Shape({4, 2}));
  }
}

TEST(Nested, ProfilesByNode) {
  const absl::StatusOr<Graph> graph = TypedGraph(kNested);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<NodeTime> times;
  RunOptions options;
  options.times = &times;
  ASSERT_TRUE(RunGraph(*graph,
                       {{{"h", Tensor::Of<float>({2}, {1, -1})},
                         {"q", Tensor::Of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
                         {"c", Tensor::Scalar<bool>(true)}}},
                       options)
                  .ok());
  int64_t relus = 0;
  for (const NodeTime& time : times) {
    if (time.graph == 2 && time.node == NodeId(1)) relus = time.runs;
  }
  EXPECT_EQ(relus, 12);  // 4 trips of the scan, 3 of the loop in each
}

}  // namespace
}  // namespace millrace
