// Sessions: what goes in, what comes out, what is refused.
#include "runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/builder.h"
#include "tests/plan/program_writer.h"
#include "tests/runtime/test_machine.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const OpTraitsTable& Traits() {
  static const auto* traits = [] {
    auto* table = new OpTraitsTable();
    (*table)["Add"].in_place = {{0, 0}};
    (*table)["Scale"] = {};
    (*table)["Keep"].host_call = true;
    return table;
  }();
  return *traits;
}

absl::StatusOr<std::unique_ptr<Session>> Open(PlanBundle plan, const TestMachine& machine,
                                              const SessionOptions& options = {}) {
  absl::StatusOr<CheckedPlan> checked = CheckedPlan::Check(std::move(plan), Traits(), nullptr);
  if (!checked.ok()) return checked.status();
  return Session::Create(*std::move(checked), machine.devices, options);
}

std::vector<float> Floats(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return {};
  const auto data = tensor->data<float>();
  return {data.begin(), data.end()};
}

// y = x * 2 + count, for two microbatches; count <- count + one in `update`, once a step. `one`
// comes from the init section as half * 2.
PlanBundle CountingPlan() {
  Graph graph = GraphOf(R"(graph "counting"
input x : f32[1,2]
param count : f32[1,2] = inline [10.0, 20.0]
const half : f32[1,2] = inline [0.5, 0.5]
one : f32[1,2] = Scale(half) {by = 2.0}
h : f32[1,2] = Scale(x) {by = 2.0}
y : f32[1,2] = Add(h, count)
next : f32[1,2] = Add(count, one)
update count <- next
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1024);
  LinearExpr x_at(256), y_at(512);
  x_at.terms = y_at.terms = {{.scale = 64}};
  const SliceId x = w.AddSlice("x", arena, x_at), y = w.AddSlice("y", arena, y_at);
  const SliceId h = w.AddSlice("h", arena, 0), half = w.AddSlice("half", arena, 64);
  const SliceId one = w.AddSlice("one", arena, 128), count = w.AddSlice("count", arena, 192);
  const SliceId next = w.AddSlice("next", arena, 192);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  w.Loads({count, half});
  w.Inputs({x});
  w.Outputs({y});
  const SegmentId init = w.BeginSegment("init");
  w.Launch(main, "one", {half}, {one});
  const SegmentId forward = w.BeginSegment("forward");
  w.Launch(main, "h", {x}, {h});
  w.Launch(main, "y", {h, count}, {y});
  const SegmentId update = w.BeginSegment("update");
  w.Launch(main, "next", {count, one}, {next});
  w.Schedule(Section::kInit, {{init, 0}});
  w.Schedule(Section::kStep, {{forward, 0}, {forward, 1}, {update, 0}});
  return PlanOf(graph, {std::move(w).Build()}, 2);
}

const Tensor kX = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});

TEST(SessionTest, StacksMicrobatchesAndKeepsParams) {
  TestMachine machine;
  auto session = Open(CountingPlan(), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->SetInput("x", kX).ok());

  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(Floats((*session)->Output("y")), ElementsAre(12, 24, 16, 28));
  EXPECT_EQ((*session)->Output("y")->shape(), Shape({2, 2}));
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(11, 21));

  ASSERT_TRUE((*session)->Run().ok());
  EXPECT_THAT(Floats((*session)->Output("y")), ElementsAre(13, 25, 17, 29));
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(12, 22));
}

TEST(SessionTest, ParamsMayBeGiven) {
  TestMachine machine;
  SessionOptions options;
  options.params["count"] = Tensor::Of<float>({1, 2}, {100, 200});
  auto session = Open(CountingPlan(), machine, options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(100, 200));

  options.params["count"] = Tensor::Of<float>({2}, {100, 200});
  EXPECT_THAT(std::string(Open(CountingPlan(), machine, options).status().message()),
              HasSubstr("param 'count' has type f32[1,2], given is f32[2]"));

  options.params = {{"counts", kX}};
  EXPECT_THAT(std::string(Open(CountingPlan(), machine, options).status().message()),
              HasSubstr("no param 'counts'; there are 'count'; did you mean 'count'?"));
}

// `one` is made by the init section; it, too, is there again.
TEST(SessionTest, ReloadStartsAnewWithOtherParams) {
  TestMachine machine;
  auto session = Open(CountingPlan(), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ((*session)->SetInput("x", Tensor::Of<float>({2, 2}, {1, 2, 3, 4})), absl::OkStatus());
  ASSERT_EQ((*session)->Run(), absl::OkStatus());
  ASSERT_EQ((*session)->Reload({{"count", Tensor::Of<float>({1, 2}, {100, 200})}}),
            absl::OkStatus());
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(100, 200));
  ASSERT_EQ((*session)->Run(), absl::OkStatus());
  EXPECT_THAT(Floats((*session)->Output("y")), ElementsAre(102, 204, 106, 208));
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(101, 201));
  ASSERT_EQ((*session)->Reload({}), absl::OkStatus());  // as its source has it
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(10, 20));
}

TEST(SessionTest, WrongUseIsExplained) {
  TestMachine machine;
  auto session = Open(CountingPlan(), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto message = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), UsageError("").code());
    return std::string(status.message());
  };

  EXPECT_THAT(message((*session)->Run()), HasSubstr("input 'x' was never set"));
  EXPECT_THAT(message((*session)->Output("y").status()), HasSubstr("before the first Run"));
  EXPECT_THAT(message((*session)->SetInput("z", kX)), HasSubstr("no input 'z'; there are 'x'"));
  EXPECT_THAT(message((*session)->SetInput("x", Tensor::Of<float>({1, 2}, {1, 2}))),
              HasSubstr("input 'x' has type f32[2,2], given is f32[1,2]"));
  EXPECT_THAT(message((*session)->SetInput("x", Tensor())), HasSubstr("given is no data"));
  EXPECT_THAT(message((*session)->Output("h").status()), HasSubstr("no output 'h'"));
  EXPECT_THAT(message((*session)->Param("half").status()), HasSubstr("no param 'half'"));

  ASSERT_TRUE((*session)->SetInput("x", kX).ok());  // none of this broke the session
  EXPECT_TRUE((*session)->Run().ok());
}

TEST(SessionTest, AFailedSessionRefusesFurtherUse) {
  TestMachine machine;
  int runs = 0;
  machine.kernels.Set("Add", [&](const TestCall&) {
    return ++runs < 3 ? absl::OkStatus() : DeviceError("worn out");
  });
  auto session = Open(CountingPlan(), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->SetInput("x", kX).ok());

  const absl::Status first = (*session)->Run();
  const absl::Status second = (*session)->Run();

  EXPECT_THAT(std::string(first.message()), HasSubstr("launch next"));
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("the session cannot be used any more, since an earlier run failed"));
  EXPECT_THAT(std::string(second.message()), HasSubstr("worn out"));
  EXPECT_EQ(second.code(), DeviceError("").code());
  EXPECT_FALSE((*session)->Param("count").ok());
  EXPECT_EQ(runs, 3);
}

TEST(SessionTest, ARefusedPlanHasNoSession) {
  PlanBundle plan = CountingPlan();
  plan.programs[0].outputs.clear();
  TestMachine machine;
  EXPECT_EQ(Open(std::move(plan), machine).status().code(), CheckFailedError("").code());
}

TEST(SessionTest, CountsTheBytesOfEachDevice) {
  TestMachine machine;
  auto session = Open(CountingPlan(), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_THAT((*session)->DeviceBytes(), ElementsAre(testing::Pair("cpu:0", 1024)));
}

TEST(SessionTest, PoisonShowsInMemoryNobodyWrote) {
  PlanBundle plan = CountingPlan();
  Program& program = plan.programs[0];
  Slice scratch;
  scratch.buffer = BufferId(0);
  scratch.offset_bytes = 768;
  scratch.size_bytes = 4;
  program.slices.push_back(scratch);
  std::get<Launch>(program.segments[0].instructions[0].body).scratch =
      SliceId(program.slices.size() - 1);
  TestMachine machine;
  float seen = 0;
  machine.kernels.Set("Scale", [&](const TestCall& call) {
    if (call.args.scratch != nullptr) seen = *static_cast<float*>(call.args.scratch);
    return absl::OkStatus();
  });

  auto session = Open(plan, machine, {.poison = true});

  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(std::isnan(seen));
  EXPECT_THAT(Floats((*session)->Param("count")), ElementsAre(10, 20));  // loaded after it
}

TEST(SessionTest, ScalarsAreSharedByMicrobatchesAndStackedWhenRead) {
  Graph graph = GraphOf(R"(graph "scalars"
input rate : f32[]
input x : f32[1]
y : f32[] = Scale(rate) {by = 3.0}
z : f32[1] = Scale(x) {by = 2.0}
output y
output z
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1024);
  const auto slots = [](int64_t base) {
    LinearExpr expr(base);
    expr.terms = {{.scale = 64}};
    return expr;
  };
  const SliceId rate = w.AddSlice("rate", arena, slots(0)), x = w.AddSlice("x", arena, slots(256));
  const SliceId y = w.AddSlice("y", arena, slots(512)), z = w.AddSlice("z", arena, slots(768));
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  w.Inputs({rate, x});
  w.Outputs({y, z});
  const SegmentId forward = w.BeginSegment("forward");
  w.Launch(main, "y", {rate}, {y});
  w.Launch(main, "z", {x}, {z});
  w.Schedule(Section::kStep, {{forward, 0}, {forward, 1}, {forward, 2}});
  TestMachine machine;
  auto session = Open(PlanOf(graph, {std::move(w).Build()}, 3), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->SetInput("rate", Tensor::Scalar<float>(5)).ok());
  ASSERT_TRUE((*session)->SetInput("x", Tensor::Of<float>({3}, {1, 2, 3})).ok());

  ASSERT_TRUE((*session)->Run().ok());

  EXPECT_THAT(Floats((*session)->Output("y")), ElementsAre(15, 15, 15));
  EXPECT_THAT(Floats((*session)->Output("z")), ElementsAre(2, 4, 6));
}

TEST(SessionTest, StridedSlicesAreFilledAndRead) {
  Graph graph = GraphOf(R"(graph "strided"
input x : f32[2,3]
y : f32[2,3] = Add(x, x)
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const SliceId x = w.AddSlice("x", arena, 0, {1, 2});  // column-major
  const SliceId y = w.AddSlice("y", arena, 128, {1, 2});
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  w.Inputs({x});
  w.Outputs({y});
  const SegmentId forward = w.BeginSegment("forward");
  w.Launch(main, "y", {x, x}, {y});
  w.Schedule(Section::kStep, {{forward, 0}});
  TestMachine machine;
  std::vector<float> seen;
  machine.kernels.Set("Add", [&](const TestCall& call) {
    seen.assign(call.in(0), call.in(0) + 6);
    for (int i = 0; i < 6; ++i) call.out(0)[i] = 10 * call.in(0)[i];
    return absl::OkStatus();
  });
  auto session = Open(PlanOf(graph, {std::move(w).Build()}), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->SetInput("x", Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6})).ok());

  ASSERT_TRUE((*session)->Run().ok());

  EXPECT_THAT(seen, ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(Floats((*session)->Output("y")), ElementsAre(10, 20, 30, 40, 50, 60));
}

TEST(SessionTest, BoundedOutputsHaveTheirTrueSize) {
  Graph graph = GraphOf(R"(graph "bounded"
input x : f32[1,3]
keep: k : f32[3] bounded = Keep(x)
output k
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId host = w.AddBuffer("host", MemorySpace::kHost, 512);
  LinearExpr x_at(0), k_at(256);
  x_at.terms = k_at.terms = {{.scale = 64}};
  const SliceId x = w.AddSlice("x", host, x_at), k = w.AddSlice("k", host, k_at);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  w.Inputs({x});
  w.Outputs({k});
  const SegmentId forward = w.BeginSegment("forward");
  w.HostCall(main, "keep", {x}, {k});
  w.Schedule(Section::kStep, {{forward, 0}, {forward, 1}});
  TestMachine machine;
  machine.kernels.Set("Keep", [](const TestCall& call) {
    int64_t kept = 0;
    for (int i = 0; i < 3; ++i) {
      if (call.in(0)[i] < 10) call.out(0)[kept++] = call.in(0)[i];
    }
    *call.args.output_shapes[0] = {kept};
    return absl::OkStatus();
  });
  auto session = Open(PlanOf(graph, {std::move(w).Build()}, 2), machine);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->SetInput("x", Tensor::Of<float>({2, 3}, {1, 20, 3, 40, 5, 60})).ok());

  ASSERT_TRUE((*session)->Run().ok());

  EXPECT_THAT(Floats((*session)->Output("k")), ElementsAre(1, 3, 5));
}

TEST(SessionTest, FinishRunsItsSection) {
  PlanBundle plan = CountingPlan();
  Program& program = plan.programs[0];
  // The update moves to the finish section.
  program.finish = {program.step.back()};
  program.step.pop_back();
  TestMachine machine;
  auto executor = Executor::Prepare(plan, machine.devices);
  ASSERT_TRUE(executor.ok()) << executor.status();
  Fill(**executor, "count", {1, 1});
  Fill(**executor, "one", {5, 5});

  ASSERT_TRUE((*executor)->Run(Section::kStep).ok());
  EXPECT_THAT(Values(**executor, "count"), ElementsAre(1, 1));
  ASSERT_TRUE((*executor)->Run(Section::kFinish).ok());
  EXPECT_THAT(Values(**executor, "count"), ElementsAre(6, 6));
}

}  // namespace
}  // namespace millrace
