#include "runtime/cpu/host_machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace millrace {
namespace {

TEST(HostMachineTest, IsAMachineThatPlansCanUse) {
  const MachineSpec machine = DetectHostMachine(4, 0);

  Diagnostics diagnostics;
  VerifyMachine(machine, diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.ToStatus();
  EXPECT_EQ(CountDevices(machine, "cpu"), 4);
  const auto last = FindDevice(machine, "cpu", 3);
  ASSERT_TRUE(last.ok());
  EXPECT_GE(last->spec->threads, 1);
  EXPECT_FALSE(FindDevice(machine, "cpu", 4).ok());
}

TEST(HostMachineTest, DevicesShareTheMemoryEvenly) {
  const int64_t whole = DetectHostMachine(1, 0).devices[0].memory_bytes;
  EXPECT_EQ(whole, HostMemoryBytes());
  EXPECT_GT(whole, 0);
  EXPECT_LE(whole, int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(DetectHostMachine(3, 0).devices[0].memory_bytes, whole / 3);
}

TEST(HostMachineTest, ThreadsAreAsAskedOrAShareOfTheCores) {
  EXPECT_EQ(DetectHostMachine(2, 5).devices[0].threads, 5);
  EXPECT_EQ(DetectHostMachine(1, 0).devices[0].threads, HostCores());
  EXPECT_EQ(DetectHostMachine(10000, 0).devices[0].threads, 1);
}

}  // namespace
}  // namespace millrace
