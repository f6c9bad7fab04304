// A graph in the text form, all the way: whatever is inferred is planned for a tiny machine, the
// plan passes the checker and survives its file, and runs on the cpu. Refusals are fine at every
// step but one: the checker may not refuse what our own planner made.
#include <cstddef>
#include <cstdint>

#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "graph/weights.h"
#include "ops/cpu/cpu_target.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "passes/pipeline.h"
#include "runtime/session.h"
#include "tools/binding.h"

namespace millrace {
namespace {

constexpr int64_t kSmallBytes = 1 << 16;
constexpr double kSmallWork = 1e7;

MachineSpec TinyMachine() {
  MachineSpec machine;
  machine.name = "tiny";
  machine.devices.push_back({.name = "core",
                             .kind = "cpu",
                             .model = "",
                             .memory_bytes = 1 << 20,
                             .memory_bandwidth = 1e9,
                             .peak_flops = {{DType::kF32, 1e9}},
                             .launch_overhead_us = 0,
                             .threads = 1,
                             .copy_engines = 1,
                             .arch = ""});
  machine.nodes.push_back({.count = 1,
                           .devices = {{"core", 1}},
                           .host_memory_bytes = 1 << 20,
                           .host_memory_bandwidth = 1e9,
                           .host_link = {},
                           .peer_link = {}});
  return machine;
}

// All values and all work, nested graphs included; weights in files are not there.
bool IsSmall(const Graph& root) {
  double work = 0;
  for (const Graph* graph : FlattenGraphs(root)) {
    if (!graph->weight_files.empty()) return false;
    for (const Value& value : graph->values) {
      if (!value.typed || ByteSize(value.type) > kSmallBytes) return false;
    }
    for (size_t n = 0; n < graph->nodes.size(); ++n) {
      work += WorkOf(QueryFor(*graph, NodeId(n))).flops;
    }
  }
  return work <= kSmallWork;
}

absl::Status RunGraph(Graph graph) {
  static const MachineSpec machine = TinyMachine();
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled,
                            Compile(std::move(graph), machine, CpuTarget()));
  const absl::StatusOr<PlanBundle> again = ParsePlanJson(PlanToJson(compiled.plan), "plan.json");
  MILLRACE_CHECK(again.ok() && ContentHash(*again) == ContentHash(compiled.plan));
  absl::StatusOr<CheckedPlan> checked =
      CheckedPlan::Check(std::move(compiled.plan), AllOpTraits(), &machine);
  MILLRACE_CHECK(checked.ok());
  MILLRACE_ASSIGN_OR_RETURN(const BoundDevices devices,
                            BoundDevices::Bind(checked->plan(), machine, ""));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(*std::move(checked), devices.table(),
                                            {.communicator = devices.communicator()}));
  const Graph& planned = session->plan().graph;
  for (ValueId input : planned.inputs) {
    const Value& value = planned.value(input);
    MILLRACE_RETURN_IF_ERROR(session->SetInput(value.name, Tensor::Zeros(value.type)));
  }
  MILLRACE_RETURN_IF_ERROR(session->Run());
  for (ValueId output : planned.outputs) {
    MILLRACE_RETURN_IF_ERROR(session->Output(planned.value(output).name).status());
  }
  return session->Finish();
}

}  // namespace
}  // namespace millrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  auto graph = ParseGraphText({reinterpret_cast<const char*>(data), size});
  if (!graph.ok()) return 0;
  Diagnostics diagnostics;
  VerifyGraph(*graph, diagnostics);
  if (!diagnostics.ok()) return 0;
  InferTypes(*graph, diagnostics);
  if (!diagnostics.ok() || !IsSmall(*graph)) return 0;
  const absl::Status status = RunGraph(*std::move(graph));
  MILLRACE_CHECK(!absl::IsInternal(status));
  return 0;
}
