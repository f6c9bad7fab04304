// The run loop does not allocate: operator new is counted while steps run.
#include <gtest/gtest.h>

#include "runtime/executor.h"
#include "tests/plan/program_writer.h"
#include "tests/runtime/allocation_count.h"
#include "tests/runtime/test_machine.h"

namespace millrace {
namespace {

// Uses every kind of step that a plan on two cpu devices can have, except collectives.
PlanBundle BusyPlan() {
  Graph graph = GraphOf(R"(graph "busy"
input x : f32[4,4]
input c : bool[]
a : f32[4,4] = Scale(x) {by = 2.0}
branch: b : f32[4,4] = If(c, a) graph then_branch {
  input a1 : f32[4,4]
  twice: b1 : f32[4,4] = Scale(a1) {by = 2.0}
  output b1
} graph else_branch {
  input a2 : f32[4,4]
  thrice: b2 : f32[4,4] = Scale(a2) {by = 3.0}
  output b2
}
host: d : f32[4,4] = Scale(b)
output d
)");
  std::vector<Program> programs;
  for (int device = 0; device < 2; ++device) {
    ProgramWriter w(graph, device == 0 ? "left" : "right", "cpu", device);
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1024);
    const SliceId x = w.AddSlice("x", arena, 0), turned = w.AddSlice("x", arena, 64, {1, 4});
    const SliceId c = w.AddSlice("c", arena, 896), a = w.AddSlice("a", arena, 128);
    const SliceId b = w.AddSlice("b", arena, 192), d = w.AddSlice("d", arena, 256);
    const StreamId main = w.AddStream("main", StreamKind::kCompute);
    const StreamId side = w.AddStream("side", StreamKind::kCopy);
    const EventId ready = w.AddEvent("ready"), copied = w.AddEvent("copied");
    const SegmentId then = w.BeginSegment("then", 1);
    const SliceId a1 = w.AddSlice("a1", arena, 128, {}, 1);
    const SliceId b1 = w.AddSlice("b1", arena, 192, {}, 1);
    w.Launch(main, "twice", {a1}, {b1});
    const SegmentId otherwise = w.BeginSegment("else", 2);
    const SliceId a2 = w.AddSlice("a2", arena, 128, {}, 2);
    const SliceId b2 = w.AddSlice("b2", arena, 192, {}, 2);
    w.Launch(main, "thrice", {a2}, {b2});
    const SegmentId step = w.BeginSegment("step");
    if (device == 0) {
      w.Launch(main, "a", {x}, {a});
      w.Record(main, ready);
      w.Wait(side, ready);
      w.Copy(side, x, turned);
      w.Record(side, copied);
      w.Wait(main, copied);
      w.Send(main, a, ProgramId(1), 0);
    } else {
      w.Recv(main, a, ProgramId(0), 0);
      w.Call(main, "branch", {c, a}, {b}, {{then, {a1}, {b1}}, {otherwise, {a2}, {b2}}});
      w.HostCall(main, "host", {b}, {d});
    }
    w.Schedule(Section::kStep, {{step, 0}, {step, 0}});
    programs.push_back(std::move(w).Build());
  }
  return PlanOf(graph, std::move(programs));
}

TEST(AllocationTest, RunningAPlanOnTwoDevicesAllocatesNothing) {
  const PlanBundle plan = BusyPlan();
  TestMachine machine(2);
  auto executor =
      Executor::Prepare(plan, machine.devices, {.communicator = machine.communicator.get()});
  ASSERT_TRUE(executor.ok()) << executor.status();
  ASSERT_TRUE((*executor)->Run(Section::kStep).ok());

  const int64_t before = AllocationCount();
  bool ok = true;
  for (int step = 0; step < 100; ++step) ok = ok && (*executor)->Run(Section::kStep).ok();

  EXPECT_EQ(AllocationCount() - before, 0);
  EXPECT_TRUE(ok);
  EXPECT_GT(before, 0);  // the counter counts
}

}  // namespace
}  // namespace millrace
