// Prices of whole plans: what is measured, what follows from the machine, control flow.
#include "passes/price_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/link_cost.h"
#include "graph/query_key.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "passes/cost_model.h"
#include "tests/passes/typed_graph.h"
#include "tests/plan/program_writer.h"

namespace millrace {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Bytes a microsecond: GPU memory 1e6, CPU memory 1e4, host link 1e3, file 100.
MachineSpec Machine() {
  MachineSpec machine;
  machine.name = "m";
  DeviceSpec gpu, cpu;
  gpu.name = "big";
  gpu.kind = "cuda";
  gpu.memory_bandwidth = 1e12;
  gpu.peak_flops[DType::kF32] = 1e12;
  gpu.launch_overhead_us = 2;
  cpu.name = "core";
  cpu.kind = "cpu";
  cpu.memory_bandwidth = 1e10;
  cpu.peak_flops[DType::kF32] = 1e10;
  cpu.launch_overhead_us = 0.5;
  machine.devices = {gpu, cpu};
  NodeSpec node;
  node.devices = {{"big", 2}, {"core", 1}};
  node.host_link = {.bandwidth = 1e9};
  node.peer_link = {.bandwidth = 1e10};
  machine.nodes = {node};
  machine.file_bandwidth = 1e8;
  return machine;
}

PlanBundle Bundle(Graph graph, Program program) {
  PlanBundle plan;
  plan.graph = std::move(graph);
  plan.programs = {std::move(program)};
  return plan;
}

constexpr char kRelu[] = R"(graph "g"
input x : f32[1000]
r: y : f32[1000] = Relu(x)
output y
)";

// A Launch, a HostCall of the same node, and Copies to the host and to a file.
PlanBundle ReluPlan(const std::string& kind) {
  Graph graph = TypedGraph(kRelu);
  ProgramWriter w(graph, "p", kind, 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 8192);
  const BufferId host = w.AddBuffer("host", MemorySpace::kHost, 8192);
  const BufferId file = w.AddBuffer("file", MemorySpace::kFile, 8192);
  const SliceId x = w.AddSlice("x", arena, 0), y = w.AddSlice("y", arena, 4096);
  const SliceId x_host = w.AddSlice("x", host, 0), y_host = w.AddSlice("y", host, 4096);
  const SliceId x_file = w.AddSlice("x", file, 0);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId step = w.BeginSegment("step");
  w.Launch(main, "r", {x}, {y});
  w.HostCall(main, "r", {x_host}, {y_host});
  w.Copy(main, x, x_host);
  w.Copy(main, x_host, x_file);
  w.Schedule(Section::kStep, {{step, 0}});
  return Bundle(graph, std::move(w).Build());
}

std::vector<double> Times(const PlanPrices& prices, int segment = 0) {
  std::vector<double> times;
  for (const TaskCost& cost : prices.costs.programs[0].begin()->second[segment]) {
    times.push_back(cost.time_us);
  }
  return times;
}

TEST(PricePlanTest, EachInstructionByWhatItUses) {
  const absl::StatusOr<PlanPrices> prices = PricePlan(ReluPlan("cuda"), Machine());
  ASSERT_TRUE(prices.ok()) << prices.status();
  // The HostCall runs on the node's cpu; 8,000 bytes each, copies 4,000.
  EXPECT_THAT(Times(*prices),
              ElementsAre(DoubleEq(0.008), DoubleEq(0.8), DoubleEq(4), DoubleEq(40)));
  EXPECT_THAT(prices->kernels_by_source, ElementsAre(0, 0, 2));
}

TEST(PricePlanTest, MeasuredTimesAreTaken) {
  CostTable table;
  const PlanBundle plan = ReluPlan("cuda");
  const std::string key = QueryKey(QueryFor(plan.graph, NodeId(0)));
  table.devices["big"].kernels[{key, "reference", 1}] = {.time_us = 11};
  table.devices["core"].kernels[{key, "reference", 1}] = {.time_us = 22};
  const absl::StatusOr<PlanPrices> prices = PricePlan(plan, Machine(), {.costs = &table});
  ASSERT_TRUE(prices.ok()) << prices.status();
  EXPECT_THAT(Times(*prices), ElementsAre(11, 22, 4, 40));
  EXPECT_THAT(prices->kernels_by_source, ElementsAre(2, 0, 0));

  // Half the memory bandwidth everywhere: what was measured scales.
  MachineSpec slow = Machine();
  for (DeviceSpec& device : slow.devices) device.memory_bandwidth /= 2;
  const MachineSpec machine = Machine();
  const absl::StatusOr<PlanPrices> slower =
      PricePlan(plan, slow, {.costs = &table, .measured_machine = &machine});
  ASSERT_TRUE(slower.ok()) << slower.status();
  EXPECT_THAT(Times(*slower), ElementsAre(22, 44, 4, 40));
}

// A Call of two bodies: one launch, and two with their overheads.
TEST(PricePlanTest, AnIfTakesItsCostlierBranch) {
  Graph graph = TypedGraph(R"(graph "g"
input c : bool[]
input x : f32[1000]
branch: y : f32[1000] = If(c, x) graph then_branch {
  input a : f32[1000]
  t: b : f32[1000] = Relu(a)
  output b
} graph else_branch {
  input d : f32[1000]
  e: f : f32[1000] = Relu(d)
  h: i : f32[1000] = Relu(f)
  output i
}
output y
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1 << 16);
  const SliceId c = w.AddSlice("c", arena, 0), x = w.AddSlice("x", arena, 4096);
  const SliceId y = w.AddSlice("y", arena, 8192);
  const auto inner = [&](const char* name, int graph_index) {
    return w.AddSlice(name, arena, 16384, {}, graph_index);
  };
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId then_body = w.BeginSegment("then", 1);
  w.Launch(main, "t", {inner("a", 1)}, {inner("b", 1)});
  const SegmentId else_body = w.BeginSegment("else", 2);
  w.Launch(main, "e", {inner("d", 2)}, {inner("f", 2)});
  w.Launch(main, "h", {inner("f", 2)}, {inner("i", 2)});
  const SegmentId step = w.BeginSegment("step");
  w.Call(main, "branch", {c, x}, {y}, {{then_body, {}, {}}, {else_body, {}, {}}});
  w.Schedule(Section::kStep, {{step, 0}});
  const absl::StatusOr<PlanPrices> prices =
      PricePlan(Bundle(graph, std::move(w).Build()), Machine());
  ASSERT_TRUE(prices.ok()) << prices.status();
  const TaskCost& call = prices->costs.programs[0].begin()->second[2][0];
  EXPECT_DOUBLE_EQ(call.time_us, 2 * (0.5 + 0.8));
  EXPECT_EQ(call.limit, Resource::kMemory);
  // Memory is busy for 0.8 of each 1.3 us.
  EXPECT_NEAR(call[Resource::kMemory], 0.8 / 1.3, 1e-6);
}

// A loop of one kernel a trip (0.8 us and 0.5 to start it) that stacks what it gives: elements of
// 4,000 bytes, copied in 0.8 us each. It makes 3 trips when `m` says so, else up to 5.
PlanBundle LoopPlan(bool constant_trips) {
  const std::string m = constant_trips ? "const m : i64[] = inline [3]" : "input m : i64[]";
  const std::string text = StrCat("graph \"g\"\ninput x : f32[1000]\n", m, R"(
loop: z, s = Loop(m, _, x) {max_trips = 5} graph body {
  input n : i64[]
  input c : bool[]
  input v : f32[1000]
  work: t : f32[1000] = Relu(v)
  output c
  output t
  output t
}
output z
output s
)");
  Graph graph = TypedGraph(text);
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1 << 16);
  const SliceId trips = w.AddSlice("m", arena, 0), x = w.AddSlice("x", arena, 4096);
  const SliceId z = w.AddSlice("z", arena, 8192), s = w.AddSlice("s", arena, 16384);
  const SliceId v = w.AddSlice("v", arena, 40960, {}, 1), t = w.AddSlice("t", arena, 49152, {}, 1);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId body = w.BeginSegment("body", 1);
  w.Launch(main, "work", {v}, {t});
  const SegmentId step = w.BeginSegment("step");
  w.Call(main, "loop", {trips, SliceId(), x}, {z, s}, {{body, {}, {}}}, ControlFlow::kLoop);
  w.Schedule(Section::kStep, {{step, 0}});
  return Bundle(graph, std::move(w).Build());
}

TEST(PricePlanTest, ALoopMakesAllItsTrips) {
  for (const bool known : {true, false}) {
    const absl::StatusOr<PlanPrices> prices = PricePlan(LoopPlan(known), Machine());
    ASSERT_TRUE(prices.ok()) << prices.status();
    const double trips = known ? 3 : 5;
    EXPECT_NEAR(prices->costs.programs[0].begin()->second[1][0].time_us, trips * (0.5 + 0.8 + 0.8),
                1e-9);
  }
}

// Each trip copies an element in and one out.
TEST(PricePlanTest, AScanMakesATripForEachElement) {
  Graph graph = TypedGraph(R"(graph "g"
input q : f32[5,1000]
s : f32[5,1000] = Scan(q) {num_scan_inputs = 1} graph body {
  input a : f32[1000]
  t: b : f32[1000] = Relu(a)
  output b
}
output s
)");
  ProgramWriter w(graph, "p", "cpu", 0);
  const BufferId arena = w.AddBuffer("arena", MemorySpace::kDevice, 1 << 16);
  const SliceId q = w.AddSlice("q", arena, 0), s = w.AddSlice("s", arena, 20480);
  const SliceId a = w.AddSlice("a", arena, 40960, {}, 1), b = w.AddSlice("b", arena, 49152, {}, 1);
  const StreamId main = w.AddStream("main", StreamKind::kCompute);
  const SegmentId body = w.BeginSegment("body", 1);
  w.Launch(main, "t", {a}, {b});
  const SegmentId step = w.BeginSegment("step");
  w.Call(main, "s", {q}, {s}, {{body, {a}, {b}}}, ControlFlow::kScan);
  w.Schedule(Section::kStep, {{step, 0}});
  const absl::StatusOr<PlanPrices> prices =
      PricePlan(Bundle(graph, std::move(w).Build()), Machine());
  ASSERT_TRUE(prices.ok()) << prices.status();
  EXPECT_NEAR(prices->costs.programs[0].begin()->second[1][0].time_us, 5 * (0.5 + 3 * 0.8), 1e-9);
}

TEST(PricePlanTest, EachKindOfDeviceHasItsPrices) {
  PlanBundle plan = ReluPlan("cuda");
  plan.mesh = ParseMesh("data=2").value();
  plan.programs[0].device_index = LinearExpr();
  plan.programs[0].device_index.terms.push_back({.variable = 0});
  MachineSpec machine = Machine();
  machine.devices.push_back(machine.devices[0]);
  machine.devices[2].name = "small";
  machine.devices[2].memory_bandwidth /= 10;
  machine.nodes[0].devices = {{"big", 1}, {"small", 1}, {"core", 1}};
  const absl::StatusOr<PlanPrices> prices = PricePlan(plan, machine);
  ASSERT_TRUE(prices.ok()) << prices.status();
  const auto& by_place = prices->costs.programs[0];
  ASSERT_EQ(by_place.size(), 2u);
  EXPECT_DOUBLE_EQ(by_place.at({0, 0})[0][0].time_us, 0.008);
  EXPECT_DOUBLE_EQ(by_place.at({2, 0})[0][0].time_us, 0.08);
}

TEST(PricePlanTest, WhatTheMachineLacksIsSaid) {
  PlanBundle plan = ReluPlan("cuda");
  MachineSpec machine = Machine();
  machine.file_bandwidth = 0;
  EXPECT_THAT(std::string(PricePlan(plan, machine).status().message()),
              HasSubstr("gives no file_bandwidth"));
  plan.programs[0].device_index = 5;
  const absl::Status status = PricePlan(plan, machine).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no device cuda:5"));
  plan.mesh = ParseMesh("data=1048576,more=1024").value();
  EXPECT_EQ(ExitCode(PricePlan(plan, machine).status()), 2);
}

}  // namespace
}  // namespace millrace
