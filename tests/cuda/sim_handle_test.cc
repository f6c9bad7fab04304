// Handles, contexts, deadlocks, leaks: each fault on purpose.
#include "tests/cuda/sim_driver.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// --- Handles and contexts -----------------------------------------------------------------------

TEST_F(SimTest, DestroyedHandles) {
  const CUstream stream = NewStream();
  d.StreamDestroy(stream);
  EXPECT_EQ(d.MemsetD8Async(a, 0, 1, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(Violation(), HasSubstr("MemsetD8Async on a stream that was destroyed"));
  EXPECT_EQ(d.StreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  d.EventDestroy(event);
  EXPECT_EQ(d.EventRecord(event, s1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(d.StreamWaitEvent(s1, event, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(d.EventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(sim.TakeViolations(), AllOf(Each(StartsWith("invalid handle: ")), SizeIs(4)));
}

TEST_F(SimTest, AStreamDestroyedWithWorkStillDoesIt) {
  const CUstream stream = NewStream();
  d.MemsetD8Async(a, 9, 256, stream);
  d.EventRecord(event, stream);
  d.StreamDestroy(stream);
  d.StreamWaitEvent(s1, event, 0);
  std::byte seen{};
  d.StreamSynchronize(s1);
  d.MemcpyAsync(reinterpret_cast<CUdeviceptr>(&seen), a, 1, s1);
  EXPECT_EQ(seen, std::byte{9});
}

TEST_F(SimTest, TheLegacyDefaultStream) {
  EXPECT_EQ(d.MemsetD8Async(a, 0, 1, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(Violation(), HasSubstr("legacy default stream"));
  CUstream blocking = nullptr;
  EXPECT_EQ(d.StreamCreateWithPriority(&blocking, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), HasSubstr("legacy default stream"));
}

TEST_F(SimTest, Contexts) {
  CUcontext other = nullptr;
  d.DevicePrimaryCtxRetain(&other, 1);
  d.CtxSetCurrent(other);
  EXPECT_EQ(d.MemsetD8Async(a, 0, 1, s1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(Violation(), HasSubstr("of another device than the current context's"));
  EXPECT_EQ(d.MemFree(a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), HasSubstr("not a live allocation of this kind and device"));
  d.CtxSetCurrent(nullptr);
  EXPECT_EQ(d.MemFree(a), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(Violation(), HasSubstr("MemFree without a current context"));
  d.DevicePrimaryCtxRelease(1);
  EXPECT_EQ(d.CtxSetCurrent(other), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(Violation(), HasSubstr("a context that nobody retains"));
  EXPECT_EQ(d.DevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(Violation(), HasSubstr("released too often"));
  d.CtxSetCurrent(context);
}

TEST_F(SimTest, TimedEventsAndBadMemoryFlags) {
  CUevent timed = nullptr;
  EXPECT_EQ(d.EventCreate(&timed, CU_EVENT_DEFAULT), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), HasSubstr("time stamps"));
  void* data = nullptr;
  EXPECT_EQ(d.MemHostAlloc(&data, 64, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), HasSubstr("portable and mapped"));
}

TEST_F(SimTest, CallsFromHostFunctions) {
  CUhostFn function = [](void* argument) {
    size_t free = 0, total = 0;
    static_cast<CudaSim*>(argument)->driver().MemGetInfo(&free, &total);
  };
  d.LaunchHostFunc(s1, function, &sim);
  SynchronizeAll();
  EXPECT_THAT(Violation(), HasSubstr("MemGetInfo called from a host function"));
}

TEST_F(SimTest, IpcHandlesOfWhatThereIs) {
  CUipcMemHandle handle;
  EXPECT_EQ(d.IpcGetMemHandle(&handle, a), CUDA_SUCCESS);
  CUdeviceptr opened = 0;
  EXPECT_EQ(d.IpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_SUCCESS);
  EXPECT_EQ(opened, a);
  EXPECT_EQ(d.IpcCloseMemHandle(opened), CUDA_SUCCESS);
  EXPECT_EQ(d.IpcCloseMemHandle(opened), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d.IpcGetMemHandle(&handle, a + 1), CUDA_ERROR_INVALID_VALUE);
  d.MemFree(a);
  EXPECT_EQ(d.IpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(sim.TakeViolations().size(), 3u);
}

// --- Deadlocks and leaks ------------------------------------------------------------------------

TEST(SimDeadlock, IsReportedAndEnds) {
  CudaSim sim({.stall_seconds = 0.2});
  Cancellation run;
  auto device = MustCreate(sim);
  const Buffer flags = Must(device->AllocateFlags(1));
  auto stream = MustStream(*device, run);
  ASSERT_OK(stream->WaitFlag(*reinterpret_cast<Flag*>(flags.data()), 1));
  EXPECT_THAT(Message(stream->Synchronize()), HasSubstr("CUDA_ERROR_LAUNCH_TIMEOUT"));
  EXPECT_THAT(sim.TakeViolations(),
              ElementsAre(AllOf(StartsWith("deadlock: the host waits for stream 2"),
                                HasSubstr("StreamWaitValue32 of 1 (#1 of stream 2) waits"))));
}

TEST(SimLeaks, AreListedByKind) {
  CudaSim sim;
  const CudaDriver& d = sim.driver();
  CUcontext context = nullptr;
  CUdeviceptr data = 0;
  CUevent event = nullptr;
  d.DevicePrimaryCtxRetain(&context, 0);
  d.CtxSetCurrent(context);
  d.MemAlloc(&data, 100);
  d.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  EXPECT_THAT(sim.Leaks(),
              ElementsAre("leak: the primary context of device 0 is retained 1 times more than "
                          "released",
                          "leak: bytes [0, 100) of device allocation 1 (100 bytes) was not freed",
                          "leak: 1 events not destroyed"));
  sim.ForgiveLeaks();
  EXPECT_THAT(sim.Leaks(), IsEmpty());
}

TEST(SimLeaksDeathTest, OverlookedViolationsAbort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        CudaSim sim;
        CUcontext context = nullptr;
        sim.driver().DevicePrimaryCtxRetain(&context, 0);
      },
      "leak: the primary context of device 0");
}

}  // namespace
}  // namespace millrace
