#include "runtime/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/flag_wait.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;

TEST(CpuDeviceTest, BuffersCountAgainstTheBudgetUntilTheyGo) {
  const auto device = CreateCpuDevice({.name = "cpu:3", .memory_bytes = 1000});
  auto first = device->Allocate(MemorySpace::kDevice, 600);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->data()) % kBufferAlignment, 0u);

  const auto refused = device->Allocate(MemorySpace::kDevice, 401);
  EXPECT_EQ(refused.status(),
            OutOfMemoryError("cpu:3: 401 bytes asked for, 600 in use, limit 1000"));
  EXPECT_TRUE(device->Allocate(MemorySpace::kHost, 5000).ok());  // not the device's memory
  EXPECT_TRUE(device->Allocate(MemorySpace::kDevice, 400).ok());

  *first = Buffer();
  EXPECT_TRUE(device->Allocate(MemorySpace::kDevice, 1000).ok());
}

TEST(CpuDeviceTest, MoreThanTheHostHasIsAnErrorToo) {
  const auto device = CreateCpuDevice();
  const auto refused = device->Allocate(MemorySpace::kDevice, kMaxBytes);
  EXPECT_EQ(refused.status().code(), OutOfMemoryError("").code());
  EXPECT_TRUE(device->Allocate(MemorySpace::kDevice, 0).ok());
}

TEST(CpuDeviceTest, ScratchFilesHaveNoNameAndKeepTheirBytes) {
  const TemporaryFolder folder;
  const auto device = CreateCpuDevice({.offload_directory = folder.path()});

  auto file = device->Allocate(MemorySpace::kFile, 10000);
  ASSERT_TRUE(file.ok()) << file.status();
  std::memset(file->data(), 7, 10000);

  EXPECT_EQ(file->data()[9999], std::byte{7});
  EXPECT_EQ(file->space(), MemorySpace::kFile);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(CpuDeviceTest, ScratchFilesNeedAFolder) {
  const auto without = CreateCpuDevice()->Allocate(MemorySpace::kFile, 10);
  EXPECT_EQ(without.status().code(), UsageError("").code());
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("no offload folder"));

  const auto device = CreateCpuDevice({.offload_directory = "/nonexistent/folder"});
  const auto wrong = device->Allocate(MemorySpace::kFile, 10);
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("'/nonexistent/folder': cannot make a file there: No such file"));
}

TEST(FlagWaitTest, AWaiterSeesWhatWasWrittenBefore) {
  Flag flag;
  Cancellation cancellation;
  int64_t written = 0;
  std::thread writer([&] {
    for (uint32_t i = 1; i <= 1000; ++i) {
      written = i;
      SignalFlag(flag, 2 * i - 1);
      EXPECT_TRUE(WaitForFlag(flag, 2 * i, cancellation).ok());
    }
  });
  for (uint32_t i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(WaitForFlag(flag, 2 * i - 1, cancellation).ok());
    ASSERT_EQ(written, i);
    SignalFlag(flag, 2 * i);
  }
  writer.join();
}

TEST(FlagWaitTest, CountsWrapAround) {
  Flag flag;
  Cancellation cancellation;
  SignalFlag(flag, 0xFFFFFFFFu);
  EXPECT_TRUE(FlagReached(flag.value, 0xFFFFFFF0u));
  EXPECT_FALSE(FlagReached(flag.value, 3));
  SignalFlag(flag, 4);
  EXPECT_TRUE(WaitForFlag(flag, 0xFFFFFFFFu, cancellation).ok());
  EXPECT_TRUE(WaitForFlag(flag, 4, cancellation).ok());
}

TEST(FlagWaitTest, CancellationWakesASleeper) {
  Flag flag;
  Cancellation cancellation;
  absl::Status status;
  std::thread sleeper([&] { status = WaitForFlag(flag, 1, cancellation); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cancellation.Request();
  sleeper.join();
  EXPECT_TRUE(absl::IsCancelled(status));
}

// A device writes a flag with a plain store: nobody wakes the sleeper.
TEST(FlagWaitTest, AStoreWithoutAWakeIsNoticed) {
  Flag flag;
  Cancellation cancellation;
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    flag.value.store(1, std::memory_order_release);
  });
  EXPECT_TRUE(WaitForFlag(flag, 1, cancellation).ok());
  device.join();
}

}  // namespace
}  // namespace millrace
