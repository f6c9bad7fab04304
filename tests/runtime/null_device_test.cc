// A plan on the null device: exactly these requests, in this order.
#include "runtime/null/null_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/executor.h"
#include "tests/plan/program_writer.h"
#include "tests/runtime/test_machine.h"

namespace millrace {
namespace {

using testing::ElementsAre;

// Computes on one stream and moves the result off on another, for two microbatches.
PlanBundle TwoStreamPlan() {
  Graph graph = GraphOf(R"(graph "g"
input x : f32[4,2]
y : f32[4,2] = Add(x, x)
output y
)");
  ProgramWriter w(graph, "p", "null", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1024);
  const BufferId host = w.AddBuffer("host", MemorySpace::kHost, 256);
  LinearExpr slot(256);
  slot.terms = {{.scale = 64}};
  const SliceId x = w.AddSlice("x", arena, 0), y = w.AddSlice("y", arena, slot);
  const SliceId padded = w.AddSlice("y", host, 0, {4, 1});
  const SliceId scratch = w.AddScratch(arena, 512, 16);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const StreamId copy = w.AddStream("copy", StreamKind::kCopy);
  const EventId ready = w.AddEvent("ready");
  const SegmentId step = w.BeginSegment("step");
  w.Launch(main, "y", {x, x}, {y}, scratch);
  w.Record(main, ready);
  w.Wait(copy, ready);
  w.Copy(copy, y, padded);
  w.Schedule(Section::kStep, {{step, 0}, {step, 1}});
  return PlanOf(graph, {std::move(w).Build()}, 2);
}

TEST(NullDeviceTest, RecordsEachRequestInIssueOrder) {
  const PlanBundle plan = TwoStreamPlan();
  const auto device = CreateNullDevice("null:0", "null");
  NullKernelLibrary kernels;
  auto executor = Executor::Prepare(plan, {{"null:0", {device.get(), &kernels, &kernels}}});
  ASSERT_TRUE(executor.ok()) << executor.status();

  ASSERT_TRUE((*executor)->Run(Section::kStep).ok());

  EXPECT_EQ((*executor)->num_lanes(), 1);
  EXPECT_THAT(device->Log(),
              ElementsAre("main: launch Add (reference) b0+0 b0+0 -> b0+256 scratch b0+512",
                          "main: record e0 #1", "copy: wait e0 #1",
                          "copy: copy b0+256 -> b1+0 8 bytes x 4 rows, pitch 8 -> 16",
                          "main: launch Add (reference) b0+0 b0+0 -> b0+320 scratch b0+512",
                          "main: record e0 #2", "copy: wait e0 #2",
                          "copy: copy b0+320 -> b1+0 8 bytes x 4 rows, pitch 8 -> 16",
                          "main: synchronize", "copy: synchronize"));
}

TEST(NullDeviceTest, GenerationsGoOnFromRunToRun) {
  const PlanBundle plan = TwoStreamPlan();
  const auto device = CreateNullDevice("null:0", "null");
  NullKernelLibrary kernels;
  auto executor = Executor::Prepare(plan, {{"null:0", {device.get(), &kernels, &kernels}}});
  ASSERT_TRUE(executor.ok()) << executor.status();
  device->set_recording(false);
  for (int step = 0; step < 10; ++step) ASSERT_TRUE((*executor)->Run(Section::kStep).ok());
  EXPECT_THAT(device->Log(), ElementsAre());
  device->set_recording(true);

  ASSERT_TRUE((*executor)->Run(Section::kStep).ok());

  const std::vector<std::string> log = device->Log();
  ASSERT_EQ(log.size(), 10u);
  EXPECT_EQ(log[1], "main: record e0 #21");
  EXPECT_EQ(log[2], "copy: wait e0 #21");
  EXPECT_EQ(log[5], "main: record e0 #22");
}

TEST(NullDeviceTest, MemoryIsThereAndReadsAsZeros) {
  const auto device = CreateNullDevice("null:0", "null");

  auto buffer = device->Allocate(MemorySpace::kDevice, int64_t{1} << 40);

  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::byte last{1};
  EXPECT_TRUE(device->Read(&last, buffer->data() + (int64_t{1} << 40) - 1, 1).ok());
  EXPECT_EQ(last, std::byte{0});
}

}  // namespace
}  // namespace millrace
