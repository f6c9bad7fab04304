// How fast schedulers are, and how good: orders for low memory, and streams.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "bench/models/inception.h"
#include "bench/models/small.h"
#include "bench/models/tower.h"
#include "passes/analytic_target.h"
#include "passes/schedule/choose_streams.h"
#include "passes/schedule/memory_order.h"
#include "passes/schedule/schedule_problem.h"

namespace millrace {
namespace {

// --- Orders for low memory ----------------------------------------------------------------------

ScheduleProblem ProblemOf(const Graph& graph) {
  absl::StatusOr<ScheduleProblem> problem = ScheduleProblemOf(graph);
  MILLRACE_CHECK(problem.ok());
  return *std::move(problem);
}

// Each task reads up to three results of the last `reach`, of any sizes. Nothing divides it.
ScheduleProblem Tangle(int32_t num_tasks, int32_t reach) {
  std::mt19937 random(1);
  ScheduleProblem problem;
  problem.tasks.resize(num_tasks);
  for (int32_t t = 0; t < num_tasks; ++t) {
    for (uint32_t k = random() % 4; k > 0 && t > 0; --k) {
      const int32_t back = 1 + static_cast<int32_t>(random() % reach);
      std::vector<int32_t>& readers = problem.results[std::max(0, t - back)].readers;
      if (readers.empty() || readers.back() != t) readers.push_back(t);
    }
    problem.results.push_back({.size_bytes = int64_t{1} << random() % 20, .producer = t});
  }
  return problem;
}

// Blocks of eight branches, side by side, big in the middle.
ScheduleProblem Branches(int32_t num_blocks) {
  ScheduleProblem problem;
  const auto add = [&](const std::vector<int32_t>& reads, int64_t size_bytes) {
    const auto task = static_cast<int32_t>(problem.tasks.size());
    problem.tasks.emplace_back();
    for (const int32_t r : reads) problem.results[r].readers.push_back(task);
    problem.results.push_back({.size_bytes = size_bytes, .producer = task});
    return task;
  };
  int32_t x = add({}, 64);
  for (int32_t block = 0; block < num_blocks; ++block) {
    std::vector<int32_t> branches(8, x);
    for (const int64_t size_bytes : {256, 1024, 8}) {
      for (int32_t& branch : branches) branch = add({branch}, size_bytes);
    }
    x = add(branches, 64);
  }
  return problem;
}

void OrderAll(benchmark::State& state, const ScheduleProblem& problem) {
  MemoryOrder order;
  for (auto _ : state) order = OrderForMemory(problem);
  state.counters["tasks"] = static_cast<double>(problem.tasks.size());
  state.counters["peak_of_given"] =
      static_cast<double>(order.peak_bytes) / static_cast<double>(order.given_peak_bytes);
  state.counters["peak_of_bound"] =
      static_cast<double>(order.peak_bytes) / static_cast<double>(order.lower_bound_bytes);
}

void BM_MemoryOrderTower(benchmark::State& state) {
  OrderAll(state, ProblemOf(TowerGraph(state.range(0))));
}
BENCHMARK(BM_MemoryOrderTower)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_MemoryOrderBranches(benchmark::State& state) {
  OrderAll(state, Branches(static_cast<int32_t>(state.range(0) / 25)));
}
BENCHMARK(BM_MemoryOrderBranches)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_MemoryOrderTangle(benchmark::State& state) {
  OrderAll(state, Tangle(static_cast<int32_t>(state.range(0)), 50));
}
BENCHMARK(BM_MemoryOrderTangle)->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_MemoryOrderInception(benchmark::State& state) {
  OrderAll(state, ProblemOf(InceptionV3Graph(1)));
}
BENCHMARK(BM_MemoryOrderInception)->Unit(benchmark::kMillisecond);

void BM_MemoryOrderTransformer(benchmark::State& state) {
  OrderAll(state, ProblemOf(SmallTransformerGraph(12, 128, 768, 12)));
}
BENCHMARK(BM_MemoryOrderTransformer)->Unit(benchmark::kMillisecond);

// --- Streams ------------------------------------------------------------------------------------

// An A100, on which kernels reach a third of the rates and take 2 us beyond that.
struct Gpu {
  Gpu() {
    device.name = "a100";
    device.kind = "cuda";
    device.memory_bandwidth = 1.555e12;
    device.peak_flops = {{DType::kF32, 1.95e13}};
    device.launch_overhead_us = 3;
    costs.rates = {{.compute = 1.0 / 3, .memory = 1.0 / 3, .overhead_us = 2}};
  }
  DeviceSpec device;
  DeviceCosts costs;
  AnalyticTarget target{"cuda"};
};

// Inception-v3, a batch of as many images, on so many streams.
void BM_StreamsInception(benchmark::State& state) {
  const Graph graph = InceptionV3Graph(state.range(0));
  const Gpu gpu;
  ScheduleProblem problem = ProblemOf(graph);
  SetTaskCosts(graph, gpu.target, gpu.device, 1, {.costs = &gpu.costs}, problem);
  const StreamOptions options = {.num_streams = static_cast<int32_t>(state.range(1)),
                                 .costs = StreamCostsOf(gpu.device)};
  StreamPlan plan;
  for (auto _ : state) plan = AssignStreams(problem, options);
  state.counters["tasks"] = static_cast<double>(problem.tasks.size());
  state.counters["events"] = static_cast<double>(plan.events.size());
  state.counters["of_bound"] = plan.makespan_us / plan.lower_bound_us();
  state.counters["of_one_stream"] =
      plan.makespan_us / OneStream(problem, options.costs).makespan_us;
  state.counters["shared_of_one_stream"] =
      plan.shared_us / OneStream(problem, options.costs).shared_us;
}
BENCHMARK(BM_StreamsInception)->ArgsProduct({{1, 32}, {2, 4}})->Unit(benchmark::kMillisecond);

void BM_StreamsTangle(benchmark::State& state) {
  ScheduleProblem problem = Tangle(static_cast<int32_t>(state.range(0)), 50);
  std::mt19937 random(2);
  for (ScheduleTask& task : problem.tasks) task.time_us = 1 + random() % 20;
  StreamPlan plan;
  for (auto _ : state) plan = AssignStreams(problem, {.num_streams = 4, .costs = {.event_us = 1}});
  state.counters["of_bound"] = plan.makespan_us / plan.lower_bound_us();
  state.counters["events"] = static_cast<double>(plan.events.size());
}
BENCHMARK(BM_StreamsTangle)->Arg(1000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace

BENCHMARK_MAIN();
