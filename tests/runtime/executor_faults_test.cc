// Runs that fail: the first error comes out, with its place, and nobody waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "graph/strings.h"
#include "runtime/executor.h"
#include "tests/plan/program_writer.h"
#include "tests/runtime/test_machine.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

absl::Status Fail(const TestCall&) { return DeviceError("the kernel broke"); }

// Stream "left" computes y by a kernel that fails; "right" waits for its event.
PlanBundle WaitingPlan(const char* op) {
  Graph graph = GraphOf(StrCat(R"(graph "waiting"
input x : f32[1]
first: y : f32[1] = )",
                               op, R"((x)
second: z : f32[1] = Scale(y)
output z
)"));
  ProgramWriter w(graph, "stage0", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
  const SliceId x = w.AddSlice("x", arena, 0), y = w.AddSlice("y", arena, 64);
  const SliceId z = w.AddSlice("z", arena, 128);
  const StreamId left = w.AddStream("left", StreamKind::kCompute);
  const StreamId right = w.AddStream("right", StreamKind::kCompute);
  const EventId ready = w.AddEvent("ready");
  const SegmentId step = w.BeginSegment("step");
  w.Launch(left, "first", {x}, {y});
  w.Record(left, ready);
  w.Wait(right, ready);
  w.Launch(right, "second", {y}, {z});
  w.Schedule(Section::kStep, {{step, 3}});
  return PlanOf(graph, {std::move(w).Build()}, 4);
}

TEST(ExecutorFaultsTest, TheErrorNamesItsPlaceAndTheWaitingLaneGivesUp) {
  const PlanBundle plan = WaitingPlan("Broken");
  TestMachine machine;
  machine.kernels.Set("Broken", Fail);
  auto executor = Executor::Prepare(plan, machine.devices);
  ASSERT_TRUE(executor.ok()) << executor.status();

  const auto begin = Clock::now();
  const absl::Status status = (*executor)->Run(Section::kStep);

  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_EQ(status.code(), DeviceError("").code());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("program 'stage0' on cpu:0, stream 'left', launch first"),
                    HasSubstr("microbatch 3"), HasSubstr("the kernel broke")));
  EXPECT_FALSE((*executor)->Run(Section::kStep).ok());
}

TEST(ExecutorFaultsTest, AReceiverGivesUpWhenItsSenderFails) {
  Graph graph = GraphOf(R"(graph "transfer"
input x : f32[1]
first: y : f32[1] = Broken(x)
second: z : f32[1] = Scale(y)
output z
)");
  std::vector<Program> programs;
  for (int device = 0; device < 2; ++device) {
    ProgramWriter w(graph, device == 0 ? "sender" : "receiver", "cpu", device);
    const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 256);
    const SliceId x = w.AddSlice("x", arena, 0), y = w.AddSlice("y", arena, 64);
    const SliceId z = w.AddSlice("z", arena, 128);
    const StreamId main = w.AddStream("main", StreamKind::kCompute);
    const SegmentId step = w.BeginSegment("step");
    if (device == 0) {
      w.Launch(main, "first", {x}, {y});
      w.Send(main, y, ProgramId(1), 0);
    } else {
      w.Recv(main, y, ProgramId(0), 0);
      w.Launch(main, "second", {y}, {z});
    }
    w.Schedule(Section::kStep, {{step, 0}});
    programs.push_back(std::move(w).Build());
  }
  const PlanBundle plan = PlanOf(graph, std::move(programs));
  TestMachine machine(2);
  machine.kernels.Set("Broken", Fail);
  auto executor =
      Executor::Prepare(plan, machine.devices, {.communicator = machine.communicator.get()});
  ASSERT_TRUE(executor.ok()) << executor.status();

  const auto begin = Clock::now();
  const absl::Status status = (*executor)->Run(Section::kStep);

  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("program 'sender' on cpu:0"));
}

TEST(ExecutorFaultsTest, AKernelThatCannotBePreparedIsNamed) {
  const PlanBundle plan = WaitingPlan("NobodyHasThis");
  TestMachine machine;

  const auto executor = Executor::Prepare(plan, machine.devices);

  EXPECT_THAT(std::string(executor.status().message()),
              AllOf(HasSubstr("stream 'left', launch first"),
                    HasSubstr("no test kernel for NobodyHasThis")));
}

TEST(ExecutorFaultsTest, AMissingDeviceIsNamedWithThoseThereAre) {
  PlanBundle plan = WaitingPlan("Scale");
  plan.programs[0].device_index = 5;
  TestMachine machine(2);

  const auto executor = Executor::Prepare(plan, machine.devices);

  EXPECT_EQ(executor.status().code(), UsageError("").code());
  EXPECT_THAT(std::string(executor.status().message()),
              HasSubstr("runs on cpu:5, which is not among the devices: cpu:0, cpu:1"));
}

TEST(ExecutorFaultsTest, ABufferBeyondTheDevicesMemoryIsNamed) {
  const PlanBundle plan = WaitingPlan("Scale");
  TestMachine machine(1, "", /*memory_bytes=*/255);

  const auto executor = Executor::Prepare(plan, machine.devices);

  EXPECT_EQ(executor.status().code(), OutOfMemoryError("").code());
  EXPECT_THAT(std::string(executor.status().message()),
              HasSubstr("program 'stage0' buffer 'arena' (device memory): cpu:0: 256 bytes asked "
                        "for, 0 in use, limit 255"));
}

TEST(ExecutorFaultsTest, TransfersWithoutACommunicatorAreRefused) {
  Graph graph = GraphOf("graph \"g\"\ninput x : f32[1]\noutput x\n");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 64);
  const SliceId x = w.AddSlice("x", arena, 0);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.Send(main, x, ProgramId(0), 0);
  w.Schedule(Section::kStep, {{step, 0}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()});
  TestMachine machine;

  const auto executor = Executor::Prepare(plan, machine.devices);

  EXPECT_EQ(executor.status().code(), UsageError("").code());
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr("needs a communicator"));
}

TEST(ExecutorFaultsTest, AChannelOfTwoStreamsIsRefused) {
  Graph graph = GraphOf("graph \"g\"\ninput x : f32[1]\noutput x\n");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 64);
  const SliceId x = w.AddSlice("x", arena, 0);
  const StreamId left = w.AddStream("left", StreamKind::kComm);
  const StreamId right = w.AddStream("right", StreamKind::kComm);
  const SegmentId step = w.BeginSegment("step");
  w.Send(left, x, ProgramId(0), 4);
  w.Send(right, x, ProgramId(0), 4);
  w.Schedule(Section::kStep, {{step, 0}});
  const PlanBundle plan = PlanOf(graph, {std::move(w).Build()});
  TestMachine machine;

  const auto executor =
      Executor::Prepare(plan, machine.devices, {.communicator = machine.communicator.get()});

  EXPECT_THAT(std::string(executor.status().message()),
              AllOf(HasSubstr("stream 'right', send"),
                    HasSubstr("channel 4 is used by two streams that run side by side")));
}

}  // namespace
}  // namespace millrace
