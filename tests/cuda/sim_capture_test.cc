// Captures that go wrong in each way that a capture can.
#include <thread>

#include "tests/cuda/sim_driver.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// --- Capture ------------------------------------------------------------------------------------

TEST_F(SimTest, SynchronizingWhileCapturing) {
  for (auto call : {d.StreamSynchronize, d.StreamQuery}) {
    d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    EXPECT_EQ(call(s1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_THAT(Violation(), StartsWith("capture: Stream"));
    CUgraph graph = nullptr;
    EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
  }
}

TEST_F(SimTest, AllocatingWhileCapturing) {
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUdeviceptr data = 0;
  EXPECT_EQ(d.MemAlloc(&data, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_THAT(Violation(), HasSubstr("capture: MemAlloc while a stream is being captured"));
  // Another thread may, in this mode.
  std::thread([&] {
    d.CtxSetCurrent(context);
    EXPECT_EQ(d.MemAlloc(&data, 64), CUDA_SUCCESS);
  }).join();
  std::byte host{};
  EXPECT_EQ(d.MemcpyAsync(reinterpret_cast<CUdeviceptr>(&host), a, 1, s1),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_THAT(Violation(), HasSubstr("MemcpyAsync"));
  CUgraph graph = nullptr;
  EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(SimTest, WaitingForAnUncapturedEventWhileCapturing) {
  d.EventRecord(event, s2);
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(d.StreamWaitEvent(s1, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_THAT(Violation(), HasSubstr("recorded outside"));
  CUgraph graph = nullptr;
  EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(SimTest, StreamsThatDoNotJoin) {
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  d.EventRecord(event, s1);
  d.StreamWaitEvent(s2, event, 0);
  d.MemsetD8Async(a, 5, 64, s2);
  CUgraph graph = nullptr;
  EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_THAT(Violation(), HasSubstr("did not join"));
  EXPECT_EQ(d.StreamSynchronize(s2), CUDA_SUCCESS);  // not captured any more
}

TEST_F(SimTest, CapturesDoNotMix) {
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED);
  d.StreamBeginCapture(s2, CU_STREAM_CAPTURE_MODE_RELAXED);
  d.EventRecord(event, s1);
  EXPECT_EQ(d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(d.StreamWaitEvent(s2, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  CUgraph graph = nullptr;
  EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(d.StreamEndCapture(s2, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(d.StreamEndCapture(s2, &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(d.StreamWaitEvent(s2, event, 0), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_THAT(sim.TakeViolations(), AllOf(Each(StartsWith("capture: ")), SizeIs(4)));
}

TEST_F(SimTest, CapturesEndWhereTheyBegan) {
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  d.EventRecord(event, s1);
  d.StreamWaitEvent(s2, event, 0);
  CUgraph graph = nullptr;
  EXPECT_EQ(d.StreamEndCapture(s2, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  std::thread([&] {
    d.CtxSetCurrent(context);
    EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_EQ(sim.TakeViolations().size(), 2u);
  d.StreamDestroy(s2);
  EXPECT_THAT(Violation(), HasSubstr("StreamDestroy of a stream that is being captured"));
  EXPECT_EQ(d.StreamEndCapture(s1, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(SimTest, GraphHandles) {
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  d.MemsetD8Async(a, 5, 64, s1);
  CUgraph graph = nullptr;
  ASSERT_EQ(d.StreamEndCapture(s1, &graph), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(d.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(d.GraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(d.GraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  d.StreamBeginCapture(s2, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(d.GraphLaunch(exec, s2), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(d.StreamEndCapture(s2, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(d.GraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(d.GraphLaunch(exec, s1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(sim.TakeViolations().size(), 4u);
}

// A replay races like the calls it was captured from.
TEST_F(SimTest, ReplaysAreCheckedToo) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  d.StreamBeginCapture(s1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  d.MemsetD8Async(a, 5, 64, s1);
  ASSERT_EQ(d.StreamEndCapture(s1, &graph), CUDA_SUCCESS);
  ASSERT_EQ(d.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  d.GraphLaunch(exec, s1);
  d.GraphLaunch(exec, s1);  // in order: fine
  d.StreamSynchronize(s1);
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
  d.GraphLaunch(exec, s1);
  d.MemsetD8Async(a, 6, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(Violation(), AllOf(StartsWith("unsynchronized access: "), HasSubstr("of graph 1)")));
}

}  // namespace
}  // namespace millrace
