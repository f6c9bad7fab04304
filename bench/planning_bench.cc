// What loading, inference, verification, compilation and checking cost per node, on towers of tiny
// ops. The graph file is loaded from disk cache.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "bench/models/tower.h"
#include "graph/check/check.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/plan_json.h"
#include "graph/verify.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "passes/emit_plan.h"
#include "passes/pipeline.h"
#include "runtime/cpu/host_machine.h"

namespace millrace {
namespace {

void PerNode(benchmark::State& state) {
  state.counters["ns_per_node"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// A user's `load`: read, parse, bind, order, infer, verify.
void BM_LoadInferVerify(benchmark::State& state) {
  const std::string path =
      std::filesystem::temp_directory_path() / StrCat("millrace_bench_", getpid(), ".json");
  MILLRACE_CHECK(WriteFileAtomically(path, GraphToJson(TowerGraph(state.range(0)))).ok());
  for (auto _ : state) {
    auto graph = LoadGraph(path);
    MILLRACE_CHECK(graph.ok() && InferTypes(*graph).ok());
    Diagnostics diagnostics;
    VerifyGraph(*graph, diagnostics);
    MILLRACE_CHECK(diagnostics.ok());
    benchmark::DoNotOptimize(graph);
  }
  std::remove(path.c_str());
  PerNode(state);
}
BENCHMARK(BM_LoadInferVerify)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_Infer(benchmark::State& state) {
  Graph graph = TowerGraph(state.range(0));
  for (auto _ : state) MILLRACE_CHECK(InferTypes(graph).ok());
  PerNode(state);
}
BENCHMARK(BM_Infer)->Arg(100000)->Unit(benchmark::kMillisecond);

PlanBundle TowerPlan(int64_t num_nodes) {
  auto result = Compile(TowerGraph(num_nodes), DetectHostMachine(1, 1), CpuTarget());
  MILLRACE_CHECK(result.ok());
  return std::move(result->plan);
}

void BM_Compile(benchmark::State& state) {
  const Graph graph = TowerGraph(state.range(0));
  const MachineSpec machine = DetectHostMachine(1, 1);
  const CpuTarget target;
  for (auto _ : state) MILLRACE_CHECK(Compile(graph, machine, target).ok());
  PerNode(state);
}
BENCHMARK(BM_Compile)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

// Kernel choice, instructions, memory: the last part of compilation.
void BM_EmitPlan(benchmark::State& state) {
  const Graph graph = TowerGraph(state.range(0));
  const CpuTarget target;
  for (auto _ : state) MILLRACE_CHECK(EmitProgram(graph, target, {}).ok());
  PerNode(state);
}
BENCHMARK(BM_EmitPlan)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_CheckPlan(benchmark::State& state) {
  const PlanBundle plan = TowerPlan(state.range(0));
  for (auto _ : state) MILLRACE_CHECK(CheckPlan(plan, AllOpTraits(), nullptr).ok());
  PerNode(state);
}
BENCHMARK(BM_CheckPlan)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_SavePlan(benchmark::State& state) {
  const PlanBundle plan = TowerPlan(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(PlanToJson(plan));
  PerNode(state);
}
BENCHMARK(BM_SavePlan)->Arg(100000)->Unit(benchmark::kMillisecond);

void BM_LoadPlan(benchmark::State& state) {
  const std::string json = PlanToJson(TowerPlan(state.range(0)));
  for (auto _ : state) MILLRACE_CHECK(ParsePlanJson(json, "plan.json").ok());
  PerNode(state);
}
BENCHMARK(BM_LoadPlan)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace

BENCHMARK_MAIN();
