// What plans mean when they run: order, microbatches, events, transfers, branches, host calls.
#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/plan/program_writer.h"
#include "tests/runtime/test_machine.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::unique_ptr<Executor> PrepareOrDie(const PlanBundle& plan, const TestMachine& machine) {
  absl::StatusOr<std::unique_ptr<Executor>> executor =
      Executor::Prepare(plan, machine.devices, {.communicator = machine.communicator.get()});
  EXPECT_TRUE(executor.ok()) << executor.status();
  return *std::move(executor);
}

// y = (x + x) * 3 + x, one stream.
PlanBundle ChainPlan() {
  Graph graph = GraphOf(R"(graph "chain"
input x : f32[2]
a : f32[2] = Add(x, x)
b : f32[2] = Scale(a) {by = 3.0}
y : f32[2] = Add(b, x)
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const SliceId x = w.AddSlice("x", arena, 0), a = w.AddSlice("a", arena, 64);
  const SliceId b = w.AddSlice("b", arena, 128), y = w.AddSlice("y", arena, 192);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  w.Inputs({x});
  w.Outputs({y});
  const SegmentId forward = w.BeginSegment("forward");
  w.Launch(main, "a", {x, x}, {a});
  w.Launch(main, "b", {a}, {b});
  w.Launch(main, "y", {b, x}, {y});
  w.Schedule(Section::kStep, {{forward, 0}});
  return PlanOf(graph, {std::move(w).Build()});
}

TEST(ExecutorTest, AChainRunsInOrderOnTheCallersThread) {
  TestMachine machine;
  std::vector<std::thread::id> threads;
  machine.kernels.Set("Scale", [&](const TestCall& call) {
    threads.push_back(std::this_thread::get_id());
    for (int64_t i = 0; i < call.size(); ++i) call.out(0)[i] = call.in(0)[i] * 3;
    return absl::OkStatus();
  });
  const PlanBundle plan = ChainPlan();
  const auto executor = PrepareOrDie(plan, machine);
  Fill(*executor, "x", {1, 10});

  EXPECT_TRUE(executor->Run(Section::kStep).ok());

  EXPECT_THAT(Values(*executor, "y"), ElementsAre(7, 70));
  EXPECT_EQ(executor->num_lanes(), 1);
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
}

TEST(ExecutorTest, SectionsRunOnlyWhenAskedFor) {
  TestMachine machine;
  const PlanBundle plan = ChainPlan();
  const auto executor = PrepareOrDie(plan, machine);
  Fill(*executor, "x", {1, 10});
  Fill(*executor, "y", {-1, -1});

  EXPECT_TRUE(executor->Run(Section::kInit).ok());
  EXPECT_TRUE(executor->Run(Section::kFinish).ok());

  EXPECT_THAT(Values(*executor, "y"), ElementsAre(-1, -1));
}

TEST(ExecutorTest, EachMicrobatchUsesItsOwnSlot) {
  Graph graph = GraphOf(R"(graph "slots"
input x : f32[1]
h : f32[1] = Scale(x) {by = 2.0}
y : f32[1] = Add(h, x)
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId io = w.AddBuffer("io", MemorySpace::kDevice, 1024);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 128);
  LinearExpr x_at(0), y_at(512), h_at(0);
  x_at.terms = {{.scale = 64}};
  y_at.terms = {{.scale = 64}};
  h_at.terms = {{.scale = 64, .modulus = 2}};  // two slots, used in turn
  const SliceId x = w.AddSlice("x", io, x_at), y = w.AddSlice("y", io, y_at);
  const SliceId h = w.AddSlice("h", arena, h_at);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId first = w.BeginSegment("first");
  w.Launch(main, "h", {x}, {h});
  const SegmentId second = w.BeginSegment("second");
  w.Launch(main, "y", {h, x}, {y});
  w.Schedule(Section::kStep, {{first, 0},
                              {first, 1},
                              {second, 0},
                              {first, 2},
                              {second, 1},
                              {first, 3},
                              {second, 2},
                              {second, 3}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()}, 4);
  TestMachine machine;
  const auto executor = PrepareOrDie(plan, machine);
  for (int m = 0; m < 4; ++m) Fill(*executor, "x", {10.0f + m}, 0, m);

  EXPECT_TRUE(executor->Run(Section::kStep).ok());

  for (int m = 0; m < 4; ++m) {
    EXPECT_THAT(Values(*executor, "y", 0, m), ElementsAre(3 * (10.0f + m)));
  }
}

// Two streams hand a value back and forth; each hop waits for the other's event. `hops` per step.
PlanBundle PingPongPlan(int hops) {
  Graph graph = GraphOf(R"(graph "pingpong"
param one : f32[1] = splat 1.0
input a : f32[1]
to_b: b : f32[1] = Add(a, one)
to_a: c : f32[1] = Add(b, one)
output c
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const SliceId one = w.AddSlice("one", arena, 0), a = w.AddSlice("a", arena, 64);
  const SliceId b = w.AddSlice("b", arena, 128), c = w.AddSlice("c", arena, 64);
  const StreamId left = w.AddStream("left", StreamKind::kCompute);
  const StreamId right = w.AddStream("right", StreamKind::kCompute);
  const EventId b_ready = w.AddEvent("b_ready"), c_ready = w.AddEvent("c_ready");
  const SegmentId hop = w.BeginSegment("hop");
  w.Launch(left, "to_b", {a, one}, {b});
  w.Record(left, b_ready);
  w.Wait(right, b_ready);
  w.Launch(right, "to_a", {b, one}, {c});
  w.Record(right, c_ready);
  w.Wait(left, c_ready);
  w.Schedule(Section::kStep, std::vector<ScheduleItem>(hops, {hop, 0}));
  return PlanOf(graph, {std::move(w).Build()});
}

TEST(ExecutorTest, EventsOrderTwoStreamsOverAThousandSteps) {
  const PlanBundle plan = PingPongPlan(3);
  TestMachine machine;
  const auto executor = PrepareOrDie(plan, machine);
  EXPECT_EQ(executor->num_lanes(), 2);
  Fill(*executor, "one", {1});
  Fill(*executor, "a", {0});

  for (int step = 0; step < 1000; ++step) ASSERT_TRUE(executor->Run(Section::kStep).ok());

  EXPECT_THAT(Values(*executor, "a"), ElementsAre(6000));
}

// Each device sends to the other what it got from it, plus one: both directions, on one stream a
// device.
PlanBundle ExchangePlan() {
  Graph graph = GraphOf(R"(graph "exchange"
param one : f32[1] = splat 1.0
input a : f32[1]
there: b : f32[1] = Add(a, one)
back: c : f32[1] = Add(b, one)
output c
)");
  std::vector<Program> programs;
  for (int device = 0; device < 2; ++device) {
    ProgramWriter w(graph, device == 0 ? "left" : "right", "cpu", device);
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
    const SliceId one = w.AddSlice("one", arena, 0), a = w.AddSlice("a", arena, 64);
    const SliceId b = w.AddSlice("b", arena, 128), c = w.AddSlice("c", arena, 64);
    const StreamId main = w.AddStream("main", StreamKind::kCompute);
    const SegmentId step = w.BeginSegment("step");
    if (device == 0) {
      w.Launch(main, "there", {a, one}, {b});
      w.Send(main, b, ProgramId(1), 7);
      w.Recv(main, c, ProgramId(1), 8);
    } else {
      w.Recv(main, b, ProgramId(0), 7);
      w.Launch(main, "back", {b, one}, {c});
      w.Send(main, c, ProgramId(0), 8);
    }
    w.Schedule(Section::kStep, {{step, 0}, {step, 0}});
    programs.push_back(std::move(w).Build());
  }
  return PlanOf(graph, std::move(programs));
}

TEST(ExecutorTest, DevicesExchangeValuesOverAThousandSteps) {
  const PlanBundle plan = ExchangePlan();
  TestMachine machine(2);
  const auto executor = PrepareOrDie(plan, machine);
  for (int device = 0; device < 2; ++device) Fill(*executor, "one", {1}, device);
  Fill(*executor, "a", {0});

  for (int step = 0; step < 1000; ++step) ASSERT_TRUE(executor->Run(Section::kStep).ok());

  EXPECT_THAT(Values(*executor, "a"), ElementsAre(4000));
}

TEST(ExecutorTest, AProgramRunsAtEveryMeshCoordinate) {
  // Along axis "ring" each device sends x to the next one and adds what it got from the one before.
  Graph graph = GraphOf(R"(graph "ring"
input x : f32[1]
input from_left : f32[1]
y : f32[1] = Add(x, from_left)
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const SliceId x = w.AddSlice("x", arena, 0), left = w.AddSlice("from_left", arena, 64);
  const SliceId y = w.AddSlice("y", arena, 128);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const StreamId comm = w.AddStream("comm", StreamKind::kComm);
  const EventId got = w.AddEvent("got");
  const SegmentId step = w.BeginSegment("step");
  w.Send(main, x, ProgramId(0), 0);
  w.Recv(comm, left, ProgramId(0), 0);
  w.Record(comm, got);
  w.Wait(main, got);
  w.Launch(main, "y", {x, left}, {y});
  w.Schedule(Section::kStep, {{step, 0}});
  Program program = std::move(w).Build();
  const auto neighbour = [](int64_t add) {
    LinearExpr expr;
    expr.terms = {{.variable = 0, .scale = 1, .add = add, .modulus = 3}};
    return expr;
  };
  std::get<Send>(program.segments[0].instructions[0].body).to.coordinates = {{0, neighbour(1)}};
  std::get<Recv>(program.segments[0].instructions[1].body).from.coordinates = {{0, neighbour(2)}};
  program.device_index = neighbour(0);
  PlanBundle plan = PlanOf(graph, {program});
  plan.mesh.axes = {{"ring", 3}};
  TestMachine machine(3);
  const auto executor = PrepareOrDie(plan, machine);
  for (int device = 0; device < 3; ++device) Fill(*executor, "x", {10.0f * device}, device);

  EXPECT_TRUE(executor->Run(Section::kStep).ok());

  EXPECT_THAT(Values(*executor, "y", 0), ElementsAre(20));
  EXPECT_THAT(Values(*executor, "y", 1), ElementsAre(10));
  EXPECT_THAT(Values(*executor, "y", 2), ElementsAre(30));
}

TEST(ExecutorTest, ACollectiveSumsOverItsAxisOnly) {
  Graph graph = GraphOf(R"(graph "sum"
input x : f32[3]
y : f32[3] = comm.AllReduce(x) {axis = ["data"], op = "sum"}
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const SliceId x = w.AddSlice("x", arena, 0), y = w.AddSlice("y", arena, 64);
  w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.Schedule(Section::kStep, {{step, 0}});
  Program program = std::move(w).Build();
  program.segments[0].instructions = {{StreamId(0), Collective{NodeId(0), {x}, {y}, {}}}};
  program.device_index.terms = {{.variable = 0, .scale = 2}, {.variable = 1, .scale = 1}};
  PlanBundle plan = PlanOf(graph, {program});
  plan.mesh.axes = {{"data", 2}, {"tensor", 2}};
  TestMachine machine(4);
  const auto executor = PrepareOrDie(plan, machine);
  for (int d = 0; d < 4; ++d) Fill(*executor, "x", {1.0f * d, 10.0f * d, 100}, d);

  EXPECT_TRUE(executor->Run(Section::kStep).ok());

  EXPECT_THAT(Values(*executor, "y", 0), ElementsAre(2, 20, 200));
  EXPECT_THAT(Values(*executor, "y", 1), ElementsAre(4, 40, 200));
  EXPECT_THAT(Values(*executor, "y", 2), ElementsAre(2, 20, 200));
  EXPECT_THAT(Values(*executor, "y", 3), ElementsAre(4, 40, 200));
}

TEST(ExecutorTest, AnIfRunsTheChosenBodyOnly) {
  // outer: x < 10 ? (y < 10 ? x*2 : x*3) : x*5, the inner If being nested.
  Graph graph = GraphOf(R"(graph "branches"
input x : f32[1]
input y : f32[1]
is_small: c : bool[] = Less10(x)
outer: z : f32[1] = If(c, x, y) graph then_branch {
  input x1 : f32[1]
  input y1 : f32[1]
  is_small2: c1 : bool[] = Less10(y1)
  inner: z1 : f32[1] = If(c1, x1) graph then_branch {
    input x2 : f32[1]
    twice: z2 : f32[1] = Scale(x2) {by = 2.0}
    output z2
  } graph else_branch {
    input x3 : f32[1]
    thrice: z3 : f32[1] = Scale(x3) {by = 3.0}
    output z3
  }
  output z1
} graph else_branch {
  input x4 : f32[1]
  input y4 : f32[1]
  fivefold: z4 : f32[1] = Scale(x4) {by = 5.0}
  output z4
}
after: w : f32[1] = Add(z, x)
output w
)");
  // Graphs: 0 the whole, 1 then, 2 then2, 3 else2, 4 else.
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 512);
  const auto slice = [&](const char* value, int64_t at, int graph_index = 0) {
    return w.AddSlice(value, arena, at, {}, graph_index);
  };
  const SliceId x = slice("x", 0), y = slice("y", 64), c = slice("c", 128), z = slice("z", 192);
  const SliceId c1 = slice("c1", 256, 1), out = slice("w", 320);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId twice = w.BeginSegment("twice", 2);
  w.Launch(main, "twice", {slice("x2", 0, 2)}, {slice("z2", 192, 2)});
  const SegmentId thrice = w.BeginSegment("thrice", 3);
  w.Launch(main, "thrice", {slice("x3", 0, 3)}, {slice("z3", 192, 3)});
  const SegmentId then = w.BeginSegment("then", 1);
  const SliceId x1 = slice("x1", 0, 1), y1 = slice("y1", 64, 1), z1 = slice("z1", 192, 1);
  w.Launch(main, "is_small2", {y1}, {c1});
  w.Call(main, "inner", {c1, x1}, {z1},
         {{twice, {slice("x2", 0, 2)}, {slice("z2", 192, 2)}},
          {thrice, {slice("x3", 0, 3)}, {slice("z3", 192, 3)}}});
  const SegmentId otherwise = w.BeginSegment("else", 4);
  w.Launch(main, "fivefold", {slice("x4", 0, 4)}, {slice("z4", 192, 4)});
  const SegmentId step = w.BeginSegment("step");
  w.Launch(main, "is_small", {x}, {c});
  w.Call(main, "outer", {c, x, y}, {z},
         {{then, {x1, y1}, {z1}},
          {otherwise, {slice("x4", 0, 4), slice("y4", 64, 4)}, {slice("z4", 192, 4)}}});
  w.Launch(main, "after", {z, x}, {out});
  w.Schedule(Section::kStep, {{step, 0}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()});
  TestMachine machine;
  int scales = 0;
  machine.kernels.Set("Scale", [&](const TestCall& call) {
    ++scales;
    *call.out(0) = *call.in(0) * static_cast<float>(call.request.query.attrs.Float("by", 0));
    return absl::OkStatus();
  });
  const auto executor = PrepareOrDie(plan, machine);
  const auto run = [&](float x_value, float y_value) {
    Fill(*executor, "x", {x_value});
    Fill(*executor, "y", {y_value});
    EXPECT_TRUE(executor->Run(Section::kStep).ok());
    return Values(*executor, "w")[0];
  };

  EXPECT_EQ(run(4, 4), 4 * 2 + 4);
  EXPECT_EQ(run(4, 40), 4 * 3 + 4);
  EXPECT_EQ(run(40, 4), 40 * 5 + 40);
  EXPECT_EQ(scales, 3);
}

TEST(ExecutorTest, HostCallsPassTrueShapesOn) {
  // Keep copies the elements below 10 (at most 4 of them), Count counts what it is given.
  Graph graph = GraphOf(R"(graph "bounded"
input x : f32[4]
keep: k : f32[4] bounded = Keep(x)
count: n : f32[1] = Count(k)
output k
output n
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId host = w.AddBuffer("host", MemorySpace::kHost, 256);
  const SliceId x = w.AddSlice("x", host, 0), k = w.AddSlice("k", host, 64);
  const SliceId n = w.AddSlice("n", host, 128);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.HostCall(main, "keep", {x}, {k});
  w.HostCall(main, "count", {k}, {n});
  w.Schedule(Section::kStep, {{step, 0}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()});
  TestMachine machine;
  machine.kernels.Set("Keep", [](const TestCall& call) {
    int64_t kept = 0;
    for (int64_t i = 0; i < (*call.args.input_shapes[0])[0]; ++i) {
      if (call.in(0)[i] < 10) call.out(0)[kept++] = call.in(0)[i];
    }
    *call.args.output_shapes[0] = {kept};
    return absl::OkStatus();
  });
  machine.kernels.Set("Count", [](const TestCall& call) {
    EXPECT_TRUE(call.request.true_shapes);
    *call.out(0) = static_cast<float>((*call.args.input_shapes[0])[0]);
    return absl::OkStatus();
  });
  const auto executor = PrepareOrDie(plan, machine);
  const ValueRef kept{0, FindValue(plan.graph, "k")};

  Fill(*executor, "x", {1, 20, 3, 40});
  EXPECT_TRUE(executor->Run(Section::kStep).ok());
  EXPECT_EQ(executor->TrueShape(0, kept, 0), Shape({2}));
  EXPECT_THAT(Values(*executor, "n"), ElementsAre(2));

  Fill(*executor, "x", {1, 2, 3, 4});
  EXPECT_TRUE(executor->Run(Section::kStep).ok());
  EXPECT_EQ(executor->TrueShape(0, kept, 0), Shape({4}));
  EXPECT_THAT(Values(*executor, "n"), ElementsAre(4));
}

TEST(ExecutorTest, AHostCallBeyondItsBoundIsAnError) {
  Graph graph = GraphOf(R"(graph "bounded"
input x : f32[4]
keep: k : f32[4] bounded = Keep(x)
output k
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId host = w.AddBuffer("host", MemorySpace::kHost, 256);
  const SliceId x = w.AddSlice("x", host, 0), k = w.AddSlice("k", host, 64);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.HostCall(main, "keep", {x}, {k});
  w.Schedule(Section::kStep, {{step, 0}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()});
  TestMachine machine;
  machine.kernels.Set("Keep", [](const TestCall& call) {
    *call.args.output_shapes[0] = {5};
    return absl::OkStatus();
  });
  const auto executor = PrepareOrDie(plan, machine);

  const absl::Status status = executor->Run(Section::kStep);

  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("output 0 has shape [5], its bound is [4]"));
}

TEST(ExecutorTest, ACopyChangesStridesAndSpaces) {
  // x [2,3] lies with columns 16 bytes apart and rows 4; it goes to a file and back, dense.
  Graph graph = GraphOf(R"(graph "copies"
input x : f32[2,3]
y : f32[2,3] = Add(x, x)
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const BufferId file = w.AddBuffer("swap", MemorySpace::kFile, 128);
  const SliceId x = w.AddSlice("x", arena, 0, {1, 4});
  const SliceId swapped = w.AddSlice("x", file, 0), back = w.AddSlice("x", arena, 64);
  const SliceId y = w.AddSlice("y", arena, 128);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.Copy(main, x, swapped);
  w.Copy(main, swapped, back);
  w.Launch(main, "y", {back, back}, {y});
  w.Schedule(Section::kStep, {{step, 0}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()});
  TestMachine machine(1, testing::TempDir());
  const auto executor = PrepareOrDie(plan, machine);
  Fill(*executor, "x", {1, 2, 3, 4, 5, 6});

  EXPECT_TRUE(executor->Run(Section::kStep).ok());

  EXPECT_THAT(Values(*executor, "y"), ElementsAre(2, 4, 6, 8, 10, 12));
}

}  // namespace
}  // namespace millrace
