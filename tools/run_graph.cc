#include "tools/run_graph.h"

#include "graph/check/check.h"
#include "ops/op_def.h"
#include "passes/pipeline.h"
#include "runtime/cpu/host_machine.h"
#include "runtime/session.h"
#include "tools/binding.h"

namespace millrace {

absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph,
                                             const std::map<std::string, Tensor>& inputs) {
  const MachineSpec machine = DetectHostMachine(/*cpu_devices=*/1, /*threads_per_device=*/1);
  MILLRACE_ASSIGN_OR_RETURN(const auto target, MakeTarget("cpu", 1));
  CompileOptions options;
  options.device = "cpu:0";
  options.threads = 1;
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled, Compile(graph, machine, *target, options));
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan plan,
                            CheckedPlan::Check(std::move(compiled.plan), AllOpTraits(), &machine));
  MILLRACE_ASSIGN_OR_RETURN(const BoundDevices devices,
                            BoundDevices::Bind(plan.plan(), machine, ""));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto session,
      Session::Create(std::move(plan), devices.table(),
                      {.communicator = devices.communicator(), .poison = true}));
  for (const auto& [name, tensor] : inputs) {
    MILLRACE_RETURN_IF_ERROR(session->SetInput(name, tensor));
  }
  MILLRACE_RETURN_IF_ERROR(session->Run());
  std::vector<Tensor> outputs;
  for (const ValueId id : graph.outputs) {
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, session->Output(graph.value(id).name));
    outputs.push_back(std::move(tensor));
  }
  MILLRACE_RETURN_IF_ERROR(session->Finish());
  return outputs;
}

}  // namespace millrace
