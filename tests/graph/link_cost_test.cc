// Times of copies, transfers and collectives, each with the formula it must follow.
#include "graph/link_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace {
namespace {

// Bytes a microsecond: memory 1e6, host link 1e4, peer link 1e5, network 2e4, host memory 4e4, file
// 1e3. Latencies: host 3 us, peer 2 us, network 10 us.
MachineSpec Machine() {
  MachineSpec machine;
  machine.name = "m";
  DeviceSpec gpu, cpu;
  gpu.name = gpu.kind = "cuda";
  gpu.memory_bandwidth = 1e12;
  gpu.copy_engines = 2;
  cpu.name = cpu.kind = "cpu";
  cpu.memory_bandwidth = 4e10;
  cpu.threads = 8;
  machine.devices = {gpu, cpu};
  NodeSpec node;
  node.count = 4;
  node.devices = {{"cuda", 8}, {"cpu", 1}};
  node.host_memory_bandwidth = 4e10;
  node.host_link = {.bandwidth = 1e10, .latency_us = 3};
  node.peer_link = {.bandwidth = 1e11, .latency_us = 2};
  machine.nodes = {node};
  machine.network = {.bandwidth = 2e10, .latency_us = 10};
  machine.file_bandwidth = 1e9;
  return machine;
}

class LinkCostTest : public ::testing::Test {
 protected:
  DeviceLocation Gpu(int64_t index) const { return FindDevice(machine_, "cuda", index).value(); }
  DeviceLocation Cpu(int64_t index) const { return FindDevice(machine_, "cpu", index).value(); }
  TaskCost CopyOf(const DeviceLocation& device, MemorySpace from, MemorySpace to) const {
    return CopyCost(machine_, device, from, to, 1e6);
  }
  double ReduceUs(const GroupLayout& layout, double bytes, CommKind kind = CommKind::kAllReduce) {
    return CostOfCollective(machine_, Gpu(0), layout, kind, bytes).task.time_us;
  }
  CollectiveAlgorithm AlgorithmFor(const GroupLayout& layout, double bytes,
                                   CommKind kind = CommKind::kAllReduce) {
    return CostOfCollective(machine_, Gpu(0), layout, kind, bytes).algorithm;
  }

  MachineSpec machine_ = Machine();
};

constexpr MemorySpace kDevice = MemorySpace::kDevice, kHost = MemorySpace::kHost,
                      kFile = MemorySpace::kFile;

TEST_F(LinkCostTest, Places) {
  EXPECT_EQ(PlaceOf(machine_, Gpu(31)), (DevicePlace{0, 0}));
  EXPECT_EQ(PlaceOf(machine_, Cpu(3)), (DevicePlace{1, 0}));
  EXPECT_EQ(&NodeAt(machine_, 3), &machine_.nodes[0]);
}

// A megabyte. Within a memory it is read and written.
TEST_F(LinkCostTest, CopiesOfOneDevice) {
  EXPECT_DOUBLE_EQ(CopyOf(Gpu(0), kDevice, kDevice).time_us, 2);
  const TaskCost out = CopyOf(Gpu(0), kDevice, kHost);
  EXPECT_DOUBLE_EQ(out.time_us, 3 + 100);
  EXPECT_NEAR(out[Resource::kToHost], 100.0 / 103, 1e-6);
  EXPECT_EQ(out[Resource::kFromHost], 0);
  EXPECT_EQ(out[Resource::kCopyEngine], 0.5f);
  EXPECT_NEAR(out[Resource::kHostMemory], 25.0 / 103, 1e-6);
  EXPECT_EQ(out.limit, Resource::kToHost);
  EXPECT_NEAR(CopyOf(Gpu(0), kHost, kDevice)[Resource::kFromHost], 100.0 / 103, 1e-6);
  EXPECT_DOUBLE_EQ(CopyOf(Gpu(0), kHost, kHost).time_us, 50);
  EXPECT_DOUBLE_EQ(CopyOf(Gpu(0), kDevice, kFile).time_us, 1000);
  EXPECT_EQ(CopyOf(Gpu(0), kFile, kHost).limit, Resource::kFile);
}

TEST_F(LinkCostTest, OnACpuAllMemoryIsHostMemoryAndACoreCopies) {
  for (const MemorySpace to : {kDevice, kHost}) {
    const TaskCost copy = CopyOf(Cpu(0), kDevice, to);
    EXPECT_DOUBLE_EQ(copy.time_us, 50);
    EXPECT_EQ(copy[Resource::kMemory], 1);
    EXPECT_EQ(copy[Resource::kCompute], 1.0f / 8);
  }
}

TEST_F(LinkCostTest, ADeviceWithoutCopyEnginesCopiesWithItsKernels) {
  machine_.devices[0].copy_engines = 0;
  EXPECT_EQ(CopyOf(Gpu(0), kDevice, kHost)[Resource::kCompute], 1);
}

TEST_F(LinkCostTest, TransfersByRoute) {
  const auto time_us = [&](const DeviceLocation& from, const DeviceLocation& to) {
    const TransferCost cost = CostOfTransfer(machine_, from, to, 1e6);
    EXPECT_EQ(cost.from.time_us, cost.to.time_us);
    return cost.from.time_us;
  };
  EXPECT_EQ(RouteBetween(Gpu(0), Gpu(0)), Route::kSameDevice);
  EXPECT_DOUBLE_EQ(time_us(Gpu(0), Gpu(0)), 2);
  EXPECT_EQ(RouteBetween(Gpu(0), Gpu(7)), Route::kPeers);
  EXPECT_DOUBLE_EQ(time_us(Gpu(0), Gpu(7)), 2 + 10);
  EXPECT_EQ(RouteBetween(Gpu(0), Cpu(0)), Route::kHost);
  EXPECT_DOUBLE_EQ(time_us(Gpu(0), Cpu(0)), 3 + 100);
  EXPECT_EQ(RouteBetween(Gpu(0), Gpu(8)), Route::kNetwork);
  // Through the host link, which is slower than the network.
  EXPECT_DOUBLE_EQ(time_us(Gpu(0), Gpu(8)), 10 + 100);
  EXPECT_DOUBLE_EQ(time_us(Cpu(0), Cpu(1)), 10 + 50);
  EXPECT_DOUBLE_EQ(time_us(Cpu(0), Gpu(8)), 10 + 100);
}

TEST_F(LinkCostTest, ATransferUsesWhatItPassesThrough) {
  const TransferCost cost = CostOfTransfer(machine_, Gpu(0), Gpu(8), 1e6);
  EXPECT_NEAR(cost.from[Resource::kToNetwork], 50.0 / 110, 1e-6);
  EXPECT_NEAR(cost.from[Resource::kToHost], 100.0 / 110, 1e-6);
  EXPECT_EQ(cost.from[Resource::kFromNetwork], 0);
  EXPECT_NEAR(cost.to[Resource::kFromNetwork], 50.0 / 110, 1e-6);
  EXPECT_NEAR(cost.to[Resource::kFromHost], 100.0 / 110, 1e-6);
  machine_.network.full_duplex = false;
  EXPECT_NEAR(CostOfTransfer(machine_, Gpu(0), Gpu(8), 1e6).to[Resource::kToNetwork], 50.0 / 110,
              1e-6);
}

// --- Collectives --------------------------------------------------------------------------------

constexpr GroupLayout kNode = {.members = 8, .nodes = 1, .per_node = 8};
constexpr GroupLayout kOnePerNode = {.members = 4, .nodes = 4, .per_node = 1};
constexpr GroupLayout kFourNodes = {.members = 32, .nodes = 4, .per_node = 8};

// Much data: a ring, 2 (n-1) a + 2 (n-1)/n S/b with n = 8, a = 2, S/b = 1e8/1e5 = 1000.
// Little: two trees, 2 log2(n) a + 2 S/b.
TEST_F(LinkCostTest, AllReduceWithinANode) {
  EXPECT_NEAR(ReduceUs(kNode, 1e8), 2 * 7 * 2 + 2 * 7.0 / 8 * 1000, 1e-9);
  EXPECT_EQ(AlgorithmFor(kNode, 1e8), CollectiveAlgorithm::kRing);
  EXPECT_NEAR(ReduceUs(kNode, 1e3), 2 * 3 * 2 + 2 * 0.01, 1e-9);
  EXPECT_EQ(AlgorithmFor(kNode, 1e3), CollectiveAlgorithm::kTree);
}

// A flow through the network goes at the host link's 1e4 bytes/us.
TEST_F(LinkCostTest, AllReduceOverNodesOfOne) {
  EXPECT_NEAR(ReduceUs(kOnePerNode, 1e8), 2 * 3 * 10 + 2 * 3.0 / 4 * 1e4, 1e-6);
}

// Hierarchical: scatter in the node, sum between nodes in 8 flows that share the network's 2e4
// (2.5e3 each), gather in the node; k = 8, m = 4, S = 1e8:
//   2 (7*2 + 7/8 * 1000) + 2 (3*10 + 3/4 * (S/8) / 2.5e3)
TEST_F(LinkCostTest, AllReduceOverNodesOfEightIsHierarchical) {
  EXPECT_EQ(AlgorithmFor(kFourNodes, 1e8), CollectiveAlgorithm::kHierarchical);
  EXPECT_NEAR(ReduceUs(kFourNodes, 1e8),
              2 * (7 * 2 + 7.0 / 8 * 1000) + 2 * (3 * 10 + 3.0 / 4 * 1.25e7 / 2.5e3), 1e-6);
  // Not with another number of members on each node.
  GroupLayout uneven = kFourNodes;
  uneven.even = false;
  EXPECT_NE(AlgorithmFor(uneven, 1e8), CollectiveAlgorithm::kHierarchical);
}

TEST_F(LinkCostTest, TheOtherCollectives) {
  // (n-1) a + (n-1) S/b: the input is a member's own part.
  EXPECT_NEAR(ReduceUs(kNode, 1e7, CommKind::kAllGather), 7 * 2 + 7 * 100, 1e-9);
  // (n-1) a + (n-1)/n S/b
  EXPECT_NEAR(ReduceUs(kNode, 1e8, CommKind::kReduceScatter), 7 * 2 + 7.0 / 8 * 1000, 1e-9);
  EXPECT_NEAR(ReduceUs(kNode, 1e8, CommKind::kAllToAll), 7 * 2 + 7.0 / 8 * 1000, 1e-9);
  // (n-1) a + S/b, or log2(n) (a + S/b) when that is less.
  EXPECT_NEAR(ReduceUs(kNode, 1e8, CommKind::kBroadcast), 7 * 2 + 1000, 1e-9);
  EXPECT_NEAR(ReduceUs(kNode, 1e3, CommKind::kBroadcast), 3 * (2 + 0.01), 1e-9);
  // Over nodes: 24 of 32 parts leave the node, in 8 flows at 2.5e3.
  EXPECT_NEAR(ReduceUs(kFourNodes, 1e8, CommKind::kAllToAll), 24 * 10 + 24.0 / 32 * 1e8 / 2.5e3,
              1e-6);
}

// Summed over a node's members, what leaves a node is what the formula moves between nodes.
TEST_F(LinkCostTest, CollectivesUseTheNetworkForWhatLeavesTheNode) {
  for (const double bytes : {1e3, 1e8}) {
    const TaskCost task =
        CostOfCollective(machine_, Gpu(0), kFourNodes, CommKind::kAllReduce, bytes).task;
    EXPECT_LE(8 * task[Resource::kToNetwork], 1 + 1e-5);
    EXPECT_EQ(task[Resource::kToNetwork], task[Resource::kFromNetwork]);
  }
  // All of the time, when there is so much that latencies do not matter and nothing else is slow.
  machine_.nodes[0].peer_link.bandwidth = 1e18;
  const TaskCost task =
      CostOfCollective(machine_, Gpu(0), kFourNodes, CommKind::kAllReduce, 1e12).task;
  EXPECT_NEAR(8 * task[Resource::kToNetwork], 1, 1e-4);
}

TEST_F(LinkCostTest, AGroupOfOneNeedsNothing) {
  EXPECT_EQ(ReduceUs({.members = 1}, 1e8), 0);
  EXPECT_EQ(AlgorithmFor({.members = 1}, 1e8), CollectiveAlgorithm::kNone);
}

TEST_F(LinkCostTest, AHalfDuplexLinkTakesTwiceAsLong) {
  const double full = ReduceUs(kNode, 1e10);
  machine_.nodes[0].peer_link.full_duplex = false;
  EXPECT_NEAR(ReduceUs(kNode, 1e10) / full, 2, 0.01);
}

}  // namespace
}  // namespace millrace
