// What the simulated driver finds about memory: each fault on purpose, and what is right beside it.
#include <thread>

#include "tests/cuda/sim_driver.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// --- Unsynchronized access ----------------------------------------------------------------------

TEST_F(SimTest, ReadRacesWithWrite) {
  const CUdeviceptr c = NewMemory(256);
  d.MemsetD8Async(a, 3, 64, s1);
  d.MemcpyAsync(c, a, 256, s2);
  SynchronizeAll();
  const std::string violation = Violation();
  EXPECT_THAT(violation, StartsWith("unsynchronized access: "));
  EXPECT_THAT(violation, AllOf(HasSubstr("MemsetD8Async of 64 bytes (#3 of stream 1)"),
                               HasSubstr("MemcpyAsync of 256 bytes (#1 of stream 2)"),
                               HasSubstr("bytes [0, 64) of device allocation 1")));
}

TEST_F(SimTest, WriteRacesWithWrite) {
  d.MemsetD8Async(a, 3, 64, s1);
  d.MemsetD8Async(a + 63, 4, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(Violation(), AllOf(HasSubstr("wrote"), HasSubstr("bytes [63, 64)")));
}

TEST_F(SimTest, WriteRacesWithAnEarlierRead) {
  d.MemcpyAsync(b, a, 64, s1);
  d.MemsetD8Async(a, 4, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(Violation(), StartsWith("unsynchronized access: "));
}

TEST_F(SimTest, NeighboursAndReadersDoNotRace) {
  const CUdeviceptr c = NewMemory(256);
  d.MemsetD8Async(b, 3, 64, s1);
  d.MemsetD8Async(b + 64, 4, 64, s2);
  d.MemcpyAsync(c, a, 128, s1);
  d.MemcpyAsync(c + 128, a, 128, s2);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
}

TEST_F(SimTest, InterleavedRowsDoNotRace) {
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.srcDevice = a;
  rows.dstDevice = b;
  rows.srcPitch = rows.dstPitch = 32;
  rows.WidthInBytes = 16;
  rows.Height = 8;
  d.Memcpy2DAsync(&rows, s1);
  rows.srcDevice += 16;
  rows.dstDevice += 16;
  d.Memcpy2DAsync(&rows, s2);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
  d.Memcpy2DAsync(&rows, s1);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
  d.Memcpy2DAsync(&rows, s1);
  d.Memcpy2DAsync(&rows, s2);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), Each(StartsWith("unsynchronized access")));
}

TEST_F(SimTest, AnEventOrders) {
  d.MemsetD8Async(a, 3, 64, s1);
  d.EventRecord(event, s1);
  d.StreamWaitEvent(s2, event, 0);
  d.MemsetD8Async(a, 4, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
}

TEST_F(SimTest, AnEventRecordedTooEarlyDoesNot) {
  d.EventRecord(event, s1);
  d.MemsetD8Async(a, 3, 64, s1);
  d.StreamWaitEvent(s2, event, 0);
  d.MemsetD8Async(a, 4, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(Violation(), StartsWith("unsynchronized access: "));
}

TEST_F(SimTest, AFlagOrders) {
  const CUdeviceptr flag = NewPinned(64);
  std::memset(reinterpret_cast<void*>(flag), 0, 64);
  d.MemsetD8Async(a, 3, 64, s1);
  d.StreamWriteValue32(s1, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
  d.StreamWaitValue32(s2, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  d.MemsetD8Async(a, 4, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
}

TEST_F(SimTest, AFlagWithoutAFenceDoesNot) {
  const CUdeviceptr flag = NewPinned(64);
  std::memset(reinterpret_cast<void*>(flag), 0, 64);
  d.MemsetD8Async(a, 3, 64, s1);
  d.StreamWriteValue32(s1, flag, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
  d.StreamWaitValue32(s2, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  d.MemsetD8Async(a, 4, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(Violation(), StartsWith("unsynchronized access: "));
}

TEST_F(SimTest, AWaitOfTheHostOrders) {
  d.MemsetD8Async(a, 3, 64, s1);
  d.StreamSynchronize(s1);
  d.MemsetD8Async(a, 4, 64, s2);
  while (d.StreamQuery(s2) == CUDA_ERROR_NOT_READY) {
  }
  d.MemsetD8Async(a, 5, 64, s1);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
}

TEST_F(SimTest, PinnedMemoryRacesToo) {
  const CUdeviceptr pinned = NewPinned(64);
  d.MemcpyAsync(pinned, a, 64, s1);
  d.MemcpyAsync(b, pinned, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(Violation(), HasSubstr("pinned allocation"));
}

// --- Memory -------------------------------------------------------------------------------------

TEST_F(SimTest, UninitializedRead) {
  const CUdeviceptr fresh = NewMemory(256);
  d.MemsetD8Async(fresh, 0, 100, s1);
  d.MemcpyAsync(b, fresh, 100, s1);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
  d.MemcpyAsync(b, fresh, 101, s1);
  SynchronizeAll();
  EXPECT_THAT(Violation(), AllOf(StartsWith("uninitialized read: MemcpyAsync of 101 bytes"),
                                 HasSubstr("bytes [100, 101) of device allocation 3")));
}

TEST_F(SimTest, FreshMemoryIsNotANumber) {
  const CUdeviceptr fresh = NewMemory(4);
  float value = 0;
  d.MemcpyAsync(reinterpret_cast<CUdeviceptr>(&value), fresh, 4, s1);
  EXPECT_NE(value, value);
  EXPECT_THAT(Violation(), StartsWith("uninitialized read"));
}

TEST_F(SimTest, UseAfterFreeAtIssue) {
  d.MemFree(a);
  EXPECT_EQ(d.MemcpyAsync(b, a, 64, s1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), AllOf(StartsWith("use after free: MemcpyAsync from bytes [0, 64) of"),
                                 HasSubstr("freed")));
  // Its address is not soon another's.
  EXPECT_NE(NewMemory(256), a);
}

TEST_F(SimTest, FreeBeforeTheHostWaited) {
  d.MemcpyAsync(b, a, 64, s1);
  d.MemFree(a);
  SynchronizeAll();
  const std::vector<std::string> violations = sim.TakeViolations();
  EXPECT_FALSE(violations.empty());
  EXPECT_THAT(violations, Each(StartsWith("use after free: ")));
}

TEST_F(SimTest, FreeAfterTheHostWaited) {
  d.MemcpyAsync(b, a, 64, s1);
  d.StreamSynchronize(s1);
  EXPECT_EQ(d.MemFree(a), CUDA_SUCCESS);
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());
}

TEST_F(SimTest, DoubleFreeAndForeignFree) {
  d.MemFree(a);
  EXPECT_EQ(d.MemFree(a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), HasSubstr("MemFree of bytes [0, 1) of device allocation 1"));
  EXPECT_EQ(d.MemFree(b + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d.MemFreeHost(reinterpret_cast<void*>(b)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(sim.TakeViolations().size(), 2u);
}

TEST_F(SimTest, OutOfBounds) {
  EXPECT_EQ(d.MemcpyAsync(b, a + 200, 57, s1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), AllOf(StartsWith("out of bounds: MemcpyAsync from bytes [200, 257) of"),
                                 HasSubstr("(256 bytes)")));
  EXPECT_EQ(d.MemsetD8Async(a + 256, 0, 1, s1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), StartsWith("out of bounds: MemsetD8Async into bytes [256, 257)"));
}

TEST_F(SimTest, CopyOntoItself) {
  EXPECT_EQ(d.MemcpyAsync(a + 1, a, 64, s1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(Violation(), HasSubstr("between overlapping bytes"));
}

TEST_F(SimTest, PageableMemoryIsForIdleStreamsOnly) {
  std::vector<std::byte> host(64);
  const auto address = reinterpret_cast<CUdeviceptr>(host.data());
  EXPECT_EQ(d.MemcpyAsync(address, a, 64, s1), CUDA_SUCCESS);
  EXPECT_EQ(host[63], std::byte{1});
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());

  const CUdeviceptr flag = NewPinned(64);
  std::memset(reinterpret_cast<void*>(flag), 0, 64);
  d.StreamWaitValue32(s1, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  std::thread host_thread(
      [&] { std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(flag)).store(1); });
  EXPECT_EQ(d.MemcpyAsync(address, a, 64, s1), CUDA_SUCCESS);
  host_thread.join();
  // Unless the flag came first, which it may.
  for (const std::string& violation : sim.TakeViolations()) {
    EXPECT_THAT(violation, StartsWith("pageable memory: MemcpyAsync"));
  }
}

}  // namespace
}  // namespace millrace
