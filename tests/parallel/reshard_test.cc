// Which collectives turn one sharding into another.
#include "passes/parallel/reshard.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "graph/strings.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

const TensorType kMatrix = {DType::kF32, {8, 16}};

// "AllGather data:0 | Part tensor:1", or "no" when there is no way.
std::string Steps(std::string_view from, std::string_view to, std::string_view mesh_text,
                  const TensorType& type = kMatrix) {
  const Mesh mesh = *ParseMesh(mesh_text);
  const auto plan = PlanReshard(type, *ParseSharding(from, mesh), *ParseSharding(to, mesh), mesh);
  if (!plan.has_value()) return "no";
  return absl::StrJoin(plan->steps, " | ", [&](std::string* out, const ReshardStep& step) {
    constexpr std::string_view kNames[] = {"Part",          "AllReduce", "AllGather",
                                           "ReduceScatter", "AllToAll",  "Broadcast"};
    StrAppend(out, kNames[static_cast<int>(step.comm)]);
    for (const int axis : step.axes) StrAppend(out, " ", mesh.axes[axis].name);
    if (step.from_dim >= 0) StrAppend(out, " from ", step.from_dim);
    if (step.to_dim >= 0) StrAppend(out, " to ", step.to_dim);
  });
}

TEST(Reshard, OneAxisTakesOneStep) {
  EXPECT_EQ(Steps("d:0", "d:0", "d=2"), "");
  EXPECT_EQ(Steps("d:0", "", "d=2"), "AllGather d from 0");
  EXPECT_EQ(Steps("", "d:1", "d=2"), "Part d to 1");
  EXPECT_EQ(Steps("d:0", "d:1", "d=2"), "AllToAll d from 0 to 1");
  EXPECT_EQ(Steps("d:partial(sum)", "", "d=2"), "AllReduce d");
  EXPECT_EQ(Steps("d:partial(sum)", "d:1", "d=2"), "ReduceScatter d to 1");
}

TEST(Reshard, SumsOverSeveralAxesAreOneReduction) {
  EXPECT_EQ(Steps("a:partial(sum),b:partial(sum)", "", "a=2,b=2"), "AllReduce a b");
  EXPECT_EQ(Steps("a:partial(sum),b:partial(max)", "", "a=2,b=2"), "AllReduce a | AllReduce b");
}

// Axis a cuts dim 0 outside of b, so b has to be joined before a can be touched.
TEST(Reshard, InnerAxesComeFirst) {
  EXPECT_EQ(Steps("a:0,b:0", "b:0", "a=2,b=2"),
            "AllGather b from 0 | AllGather a from 0 | Part b to 0");
  EXPECT_EQ(Steps("a:0,b:0", "a:0", "a=2,b=2"), "AllGather b from 0");
  EXPECT_EQ(Steps("a:0,b:0", "a:0,b:1", "a=2,b=2"), "AllToAll b from 0 to 1");
}

TEST(Reshard, WhatIsWholeIsItsOwnMeanButNotItsOwnPartOfASum) {
  EXPECT_EQ(Steps("", "d:partial(mean)", "d=2"), "");
  EXPECT_EQ(Steps("", "d:partial(sum)", "d=2"), "no");
  EXPECT_EQ(Steps("d:0", "d:partial(max)", "d=2"), "AllGather d from 0");
}

TEST(Reshard, RefusesUnevenParts) {
  EXPECT_EQ(Steps("", "d:0", "d=3"), "no");
  EXPECT_EQ(Steps("", "d:0", "d=3", {DType::kF32, {9, 2}}), "Part d to 0");
}

TEST(Reshard, TakesLongerOverSlowerLinks) {
  MachineSpec machine;
  DeviceSpec device;
  device.name = device.kind = "cpu";
  machine.devices.push_back(device);
  NodeSpec node;
  node.count = 2;
  node.devices.emplace_back("cpu", 1);
  machine.nodes.push_back(node);
  machine.network.bandwidth = 1e9;
  machine.network.latency_us = 10;
  const Mesh mesh = *ParseMesh("d=2");
  const ReshardLinks links = {.machine = &machine};
  const auto slow = PlanReshard(kMatrix, *ParseSharding("d:0", mesh), {{{}}}, mesh, links);
  machine.network.bandwidth = 1e6;
  const auto slower = PlanReshard(kMatrix, *ParseSharding("d:0", mesh), {{{}}}, mesh, links);
  ASSERT_TRUE(slow.has_value() && slower.has_value());
  EXPECT_GT(slower->seconds, 2 * slow->seconds);
}

}  // namespace
}  // namespace millrace
