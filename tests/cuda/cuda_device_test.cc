#include "runtime/cuda/cuda_device.h"

#include <filesystem>

#include "tests/cuda/simulated_gpu.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CudaDevice, IsWhatItWasCreatedAs) {
  CudaSim sim;
  auto device = MustCreate(sim, {.name = "cuda:3"});
  EXPECT_EQ(device->name(), "cuda:3");
  EXPECT_EQ(device->kind(), "cuda");
  EXPECT_TRUE(device->asynchronous());
  EXPECT_FALSE(device->host_accessible());
}

TEST(CudaDevice, RefusesGpusThatAreNotThere) {
  CudaSim sim({.devices = 2});
  for (int ordinal : {-1, 2}) {
    const absl::Status status =
        CreateCudaDevice(sim.driver(), {.name = "cuda:2", .ordinal = ordinal}).status();
    EXPECT_EQ(ExitCode(status), 2);
    EXPECT_THAT(Message(status), AllOf(HasSubstr("cuda:2"), HasSubstr("this machine has 2")));
  }
}

TEST(CudaDevice, RefusesABudgetLargerThanTheGpu) {
  CudaSim sim({.memory_bytes = 1 << 20});
  const absl::Status status =
      CreateCudaDevice(sim.driver(), {.memory_bytes = (1 << 20) + 1}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("1048577"), HasSubstr("the GPU has 1048576")));
}

TEST(CudaDevice, ReadsBackWhatWasWritten) {
  CudaSim sim;
  auto device = MustCreate(sim);
  for (MemorySpace space : {MemorySpace::kDevice, MemorySpace::kHost}) {
    const Buffer buffer = Must(device->Allocate(space, 1000));
    EXPECT_EQ(buffer.size(), 1000);
    EXPECT_EQ(buffer.space(), space);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u);
    const auto bytes = Pattern(1000);
    EXPECT_OK(device->Write(buffer.data(), bytes.data(), 1000));
    EXPECT_EQ(ReadAll(*device, buffer), bytes);
    EXPECT_OK(device->Write(buffer.data(), nullptr, 0));
  }
}

TEST(CudaDevice, EmptyBuffersHaveAnAddress) {
  CudaSim sim;
  auto device = MustCreate(sim);
  const Buffer a = Must(device->Allocate(MemorySpace::kDevice, 0));
  const Buffer b = Must(device->Allocate(MemorySpace::kHost, 0));
  EXPECT_EQ(a.size(), 0);
  EXPECT_NE(a.data(), nullptr);
  EXPECT_NE(b.data(), nullptr);
  EXPECT_EQ(ExitCode(device->Allocate(MemorySpace::kHost, -1).status()), 2);
}

// A host that takes device memory for its own must not get away with it.
TEST(CudaDeviceDeathTest, DeviceMemoryIsOutOfTheHostsReach) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CudaSim sim;
  auto device = MustCreate(sim);
  const Buffer buffer = Must(device->Allocate(MemorySpace::kDevice, 64));
  EXPECT_DEATH(std::memset(buffer.data(), 1, 64), "");
}

TEST(CudaDevice, BudgetIsKeptAndReturned) {
  CudaSim sim;
  auto device = MustCreate(sim, {.name = "cuda:0", .memory_bytes = 4096});
  {
    const Buffer buffer = Must(device->Allocate(MemorySpace::kDevice, 3000));
    const absl::Status status = device->Allocate(MemorySpace::kDevice, 2000).status();
    EXPECT_EQ(ExitCode(status), 5);
    EXPECT_EQ(Message(status),
              "cuda:0: 2000 bytes of device memory were asked for; 3000 of the budget of 4096 are "
              "in use");
    EXPECT_OK(device->Allocate(MemorySpace::kHost, 100000).status());  // the host's is not counted
  }
  EXPECT_OK(device->Allocate(MemorySpace::kDevice, 4096).status());
}

TEST(CudaDevice, FullGpuSaysWhatThereIs) {
  CudaSim sim({.memory_bytes = 1 << 20, .pinned_bytes = 1 << 20});
  auto device = MustCreate(sim);
  const Buffer half = Must(device->Allocate(MemorySpace::kDevice, 1 << 19));
  absl::Status status = device->Allocate(MemorySpace::kDevice, 1 << 20).status();
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("1048576 bytes"), HasSubstr("524288 of 1048576 are free")));
  status = device->Allocate(MemorySpace::kHost, (1 << 20) + 1).status();
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(Message(status), HasSubstr("1048577 bytes of pinned host memory"));

  sim.FailCall("MemGetInfo", sim.CountCalls("MemGetInfo") + 1, CUDA_ERROR_NOT_INITIALIZED);
  status = device->Allocate(MemorySpace::kDevice, 1 << 20).status();
  EXPECT_EQ(ExitCode(status), 5);
}

TEST(CudaDevice, AFailedAllocationIsNotCharged) {
  CudaSim sim;
  auto device = MustCreate(sim, {.memory_bytes = 4096});
  sim.FailCall("MemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  sim.FailCall("MemAlloc", 2, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ExitCode(device->Allocate(MemorySpace::kDevice, 4096).status()), 5);
  EXPECT_EQ(ExitCode(device->Allocate(MemorySpace::kDevice, 4096).status()), 6);
  EXPECT_OK(device->Allocate(MemorySpace::kDevice, 4096).status());
}

TEST(CudaDevice, LogicalDevicesOnOneGpuShareMemoryAndNothingElse) {
  CudaSim sim({.memory_bytes = 1 << 20});
  auto a = MustCreate(sim, {.name = "cuda:0", .memory_bytes = 700'000});
  auto b = MustCreate(sim, {.name = "cuda:1", .memory_bytes = 700'000});
  const Buffer in_a = Must(a->Allocate(MemorySpace::kDevice, 600'000));
  // b's budget would allow it, the GPU does not.
  absl::Status status = b->Allocate(MemorySpace::kDevice, 600'000).status();
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("cuda:1"), HasSubstr("are free")));
  // a's use does not count against b's budget.
  const Buffer in_b = Must(b->Allocate(MemorySpace::kDevice, 400'000));
  const auto bytes = Pattern(400'000);
  EXPECT_OK(b->Write(in_b.data(), bytes.data(), 400'000));
  // One device's end leaves the other alone.
  const Buffer more = Must(a->Allocate(MemorySpace::kDevice, 1000));
  EXPECT_EQ(ReadAll(*b, in_b), bytes);
}

TEST(CudaDevice, BuffersMayOutliveTheDevice) {
  CudaSim sim;
  Buffer buffer;
  {
    auto device = MustCreate(sim);
    buffer = Must(device->Allocate(MemorySpace::kDevice, 64));
  }
  buffer = Buffer();
  EXPECT_THAT(sim.Leaks(), IsEmpty());
}

TEST(CudaDevice, FlagsStartAtZeroOnLinesOfTheirOwn) {
  CudaSim sim;
  auto device = MustCreate(sim);
  const Buffer buffer = Must(device->AllocateFlags(3));
  EXPECT_EQ(buffer.size(), 3 * 64);
  auto* flags = reinterpret_cast<Flag*>(buffer.data());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(flags[i].value.load(), 0u);
    EXPECT_EQ(flags[i].waiters.load(), 0u);
  }
}

TEST(CudaDevice, ScratchFilesNeedAnOffloadDirectory) {
  CudaSim sim;
  auto without = MustCreate(sim);
  absl::Status status = without->Allocate(MemorySpace::kFile, 64).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(Message(status), HasSubstr("no offload directory"));

  auto missing = MustCreate(sim, {.name = "cuda:1", .offload_directory = "/nowhere/at/all"});
  status = missing->Allocate(MemorySpace::kFile, 64).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("cuda:1: "), HasSubstr("/nowhere/at/all")));
}

TEST(CudaDevice, ScratchFilesLeaveNothingBehind) {
  CudaSim sim;
  const TemporaryFolder folder;
  auto device = MustCreate(sim, {.offload_directory = folder.path()});
  const Buffer buffer = Must(device->Allocate(MemorySpace::kFile, 10000));
  EXPECT_EQ(buffer.space(), MemorySpace::kFile);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const absl::Status status = device->Allocate(MemorySpace::kFile, int64_t{1} << 62).status();
  EXPECT_EQ(ExitCode(status), 5) << status;
}

TEST(EnablePeerAccess, BothWaysAndOnce) {
  CudaSim sim({.devices = 2});
  auto a = MustCreate(sim, {.name = "cuda:0", .ordinal = 0});
  auto b = MustCreate(sim, {.name = "cuda:1", .ordinal = 1});
  auto c = MustCreate(sim, {.name = "cuda:2", .ordinal = 1});
  EXPECT_TRUE(Must(EnablePeerAccess(*a, *b)));
  EXPECT_TRUE(Must(EnablePeerAccess(*b, *a)));  // already
  EXPECT_TRUE(Must(EnablePeerAccess(*b, *c)));  // the same GPU
  EXPECT_EQ(sim.CountCalls("CtxEnablePeerAccess"), 4);
}

TEST(EnablePeerAccess, SaysWhenTheMachineCannot) {
  CudaSim sim({.devices = 2, .peer_access = false});
  auto a = MustCreate(sim, {.name = "cuda:0", .ordinal = 0});
  auto b = MustCreate(sim, {.name = "cuda:1", .ordinal = 1});
  EXPECT_FALSE(Must(EnablePeerAccess(*a, *b)));
  sim.FailCall("DeviceCanAccessPeer", 2, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_THAT(Message(EnablePeerAccess(*a, *b).status()), HasSubstr("cuda:0: asking for access"));
}

}  // namespace
}  // namespace millrace
