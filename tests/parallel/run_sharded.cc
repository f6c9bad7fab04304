#include "tests/parallel/run_sharded.h"

#include "graph/check/check.h"
#include "ops/op_def.h"
#include "runtime/session.h"
#include "tests/ops/evaluate.h"
#include "tools/binding.h"

namespace millrace {

absl::StatusOr<ShardedRun> RunSharded(const Graph& graph,
                                      const std::map<std::string, Tensor>& inputs,
                                      const PlanningOptions& options, int steps) {
  MILLRACE_ASSIGN_OR_RETURN(PlanForMachine planned, CompileGraph(graph, options));
  MILLRACE_ASSIGN_OR_RETURN(
      CheckedPlan checked,
      CheckedPlan::Check(std::move(planned.plan), AllOpTraits(), &planned.machine));
  MILLRACE_ASSIGN_OR_RETURN(BoundDevices devices,
                            BoundDevices::Bind(checked.plan(), planned.machine, ""));
  SessionOptions session_options;
  session_options.communicator = devices.communicator();
  session_options.poison = true;
  MILLRACE_ASSIGN_OR_RETURN(auto session,
                            Session::Create(std::move(checked), devices.table(), session_options));
  for (const auto& [name, tensor] : inputs) {
    MILLRACE_RETURN_IF_ERROR(session->SetInput(name, tensor));
  }
  ShardedRun run;
  for (int step = 0; step < steps; ++step) {
    MILLRACE_RETURN_IF_ERROR(session->Run());
    for (const ValueId id : session->plan().graph.outputs) {
      const std::string& name = session->plan().graph.value(id).name;
      MILLRACE_ASSIGN_OR_RETURN(run.outputs[name], session->Output(name));
      run.by_step[name].push_back(run.outputs[name]);
    }
  }
  for (const ValueId id : session->plan().graph.params) {
    const std::string& name = session->plan().graph.value(id).name;
    MILLRACE_ASSIGN_OR_RETURN(run.params[name], session->Param(name));
  }
  return run;
}

std::map<std::string, Tensor> RandomInputs(const Graph& graph, uint64_t seed) {
  std::map<std::string, Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const bool is_float = IsFloat(value.type.dtype);
    inputs[value.name] =
        optest::RandomTensor(value.type, seed++, is_float ? -1 : 0, is_float ? 1 : 2);
  }
  return inputs;
}

}  // namespace millrace
