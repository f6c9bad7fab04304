// `compile_cost NODES`: infers, compiles and checks a tower of so many tiny ops once, and says how
// long each step took. One run of each, so that valgrind can count its instructions
// (tests/compile_cost.sh).
#include <charconv>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "bench/models/tower.h"
#include "graph/assert.h"
#include "graph/check/check.h"
#include "graph/verify.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "passes/pipeline.h"
#include "runtime/cpu/host_machine.h"

namespace millrace {
namespace {

template <typename Step>
void Time(const char* name, Step step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  std::printf("%-16s %8.1f ms\n", name, elapsed.count());
}

void CompileOnce(int64_t num_nodes) {
  Graph graph = TowerGraph(num_nodes);
  const MachineSpec machine = DetectHostMachine(1, 1);
  PlanBundle plan;
  Time("infer, verify", [&] {
    MILLRACE_CHECK(InferTypes(graph).ok());
    Diagnostics diagnostics;
    VerifyGraph(graph, diagnostics);
    MILLRACE_CHECK(diagnostics.ok());
  });
  Time("compile", [&] {
    absl::StatusOr<CompileResult> result = Compile(std::move(graph), machine, CpuTarget());
    MILLRACE_CHECK(result.ok());
    plan = std::move(result->plan);
  });
  Time("check", [&] { MILLRACE_CHECK(CheckPlan(plan, AllOpTraits(), &machine).ok()); });
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::string_view text = argc == 2 ? argv[1] : "";
  int64_t nodes = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), nodes);
  if (nodes < 1 || end.ptr != text.data() + text.size()) {
    std::fprintf(stderr, "compile_cost: expected one argument, the number of nodes\n");
    return 2;
  }
  millrace::CompileOnce(nodes);
}
