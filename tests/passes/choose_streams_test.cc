#include "passes/schedule/choose_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/infer.h"
#include "passes/analytic_target.h"

namespace millrace {
namespace {

DeviceSpec Device(const std::string& kind, int threads) {
  DeviceSpec device;
  device.name = device.kind = kind;
  device.memory_bandwidth = 1e12;
  device.peak_flops = {{DType::kF32, 1e13}};
  device.launch_overhead_us = 1;
  device.threads = threads;
  return device;
}

// Four branches of two large products each, joined.
Graph Branches() {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
    input x : f32[512,512]
    param w : f32[512,512] = init ones
    a = MatMul(x, w)
    b = MatMul(x, w)
    c = MatMul(x, w)
    d = MatMul(x, w)
    e = MatMul(a, w)
    f = MatMul(b, w)
    g = MatMul(c, w)
    h = MatMul(d, w)
    y = Sum(e, f, g, h)
    output y)");
  EXPECT_TRUE(graph.ok()) << graph.status();
  const absl::Status status = InferTypes(*graph);
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(graph);
}

// `overhead_us` is what a kernel takes before and after it keeps the device busy.
StreamChoice Choose(const DeviceSpec& device, double overhead_us, int max_streams) {
  const Graph graph = Branches();
  const DeviceCosts costs = {.kernels = {}, .rates = {{.overhead_us = overhead_us}}};
  const absl::StatusOr<ScheduleProblem> problem = ScheduleProblemOf(graph);
  EXPECT_TRUE(problem.ok());
  return ChooseStreams(graph, AnalyticTarget(device.kind), device,
                       {.max_streams = max_streams,
                        .threads = device.threads,
                        .known = {.costs = &costs},
                        .max_work = 1'000'000},
                       *problem);
}

TEST(ChooseStreams, KernelsThatLeaveRoomRunSideBySide) {
  const StreamChoice choice = Choose(Device("cuda", 1), 100, 4);
  EXPECT_EQ(choice.plan.num_streams, 4);
  EXPECT_FALSE(choice.plan.events.empty());
  EXPECT_LT(choice.plan.shared_us, 0.4 * choice.one_stream_us);
}

TEST(ChooseStreams, KernelsThatFillTheDeviceDoNot) {
  const StreamChoice choice = Choose(Device("cuda", 1), 0, 4);
  EXPECT_EQ(choice.plan.num_streams, 1);
  EXPECT_TRUE(choice.plan.events.empty());
  EXPECT_DOUBLE_EQ(choice.plan.shared_us, choice.one_stream_us);
}

TEST(ChooseStreams, LaunchesAreTheHostsToIssue) {
  // However many streams: the host takes longer to launch the nine kernels than they run.
  DeviceSpec device = Device("cuda", 1);
  device.launch_overhead_us = 1000;
  const StreamChoice choice = Choose(device, 100, 4);
  EXPECT_EQ(choice.plan.num_streams, 1);
  EXPECT_GE(choice.one_stream_us, 9000);
}

TEST(ChooseStreams, WorkerGroupsDivideTheThreads) {
  // A team of a quarter is four times as slow, so that nothing is gained.
  EXPECT_EQ(Choose(Device("cpu", 4), 0, 4).plan.num_streams, 1);
  EXPECT_EQ(Choose(Device("cpu", 4), 0, 4).threads, 4);
  EXPECT_EQ(Choose(Device("cpu", 1), 100, 4).plan.num_streams, 1);  // no thread for another
}

TEST(ChooseStreams, WorkerGroupsPayWhereLargeTeamsGainLittle) {
  // One thread takes 100 us, and so does a team of four.
  const Graph graph = Branches();
  DeviceCosts costs;
  for (const int threads : {1, 2, 4}) {
    costs.rates.push_back({.threads = threads, .compute = 1.0 / threads, .memory = 1.0 / threads});
  }
  const DeviceSpec device = Device("cpu", 4);
  const StreamChoice choice = ChooseStreams(
      graph, AnalyticTarget("cpu"), device,
      {.max_streams = 4, .threads = 4, .known = {.costs = &costs}, .max_work = 1'000'000},
      *ScheduleProblemOf(graph));
  EXPECT_EQ(choice.plan.num_streams, 4);
  EXPECT_EQ(choice.threads, 1);
}

}  // namespace
}  // namespace millrace
