#include "tests/adversary/adversary.h"

#include <utility>
#include <vector>

#include "graph/strings.h"
#include "graph/weights.h"
#include "runtime/prepare.h"
#include "runtime/session_transfer.h"
#include "tests/adversary/plan_sanity.h"
#include "tests/adversary/runner.h"
#include "tests/adversary/virtual_device.h"

namespace millrace {

struct Adversary::State {
  const PlanBundle* plan = nullptr;
  AdversaryOptions options;
  std::vector<std::unique_ptr<VirtualDevice>> devices;
  DeviceTable table;
  VirtualCommunicator communicator;
  std::unique_ptr<PreparedPlan> prepared;
  std::unique_ptr<Runner> runner;

  absl::Status Prepare();
  absl::Status Load();
  absl::StatusOr<Tensor> Read(ValueId value, std::vector<Binding> Program::*bindings,
                              int32_t slots) const;
};

absl::Status Adversary::State::Prepare() {
  MILLRACE_RETURN_IF_ERROR(CheckSanity(*plan));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, DeviceNamesOf(*plan));
  for (const std::string& name : names) {
    devices.push_back(std::make_unique<VirtualDevice>(name, name.substr(0, name.find(':'))));
    table[name] = {.device = devices.back().get(),
                   .kernels = options.kernels,
                   .host_kernels = options.host_kernels};
  }
  MILLRACE_ASSIGN_OR_RETURN(prepared, PreparePlan(*plan, table, {.communicator = &communicator}));
  runner = std::make_unique<Runner>(
      *prepared, RunnerOptions{.seed = options.seed, .checked = options.checked});
  return absl::OkStatus();
}

absl::Status Adversary::State::Load() {
  WeightStore weights(plan->graph);
  for (const BoundProgram& bound : prepared->programs) {
    for (const Binding& load : bound.program->loads) {
      MILLRACE_ASSIGN_OR_RETURN(const Tensor tensor, weights.Get(load.value));
      MILLRACE_RETURN_IF_ERROR(WriteSlice(bound, load.slice, 0, tensor.type(), tensor.bytes()));
    }
  }
  return runner->Run(Section::kInit);
}

absl::StatusOr<Tensor> Adversary::State::Read(ValueId id, std::vector<Binding> Program::*bindings,
                                              int32_t slots) const {
  for (size_t p = 0; p < prepared->programs.size(); ++p) {
    const BoundProgram& bound = prepared->programs[p];
    for (const Binding& binding : bound.program->*bindings) {
      if (binding.value != id) continue;
      std::vector<Tensor> parts;
      for (int32_t slot = 0; slot < slots; ++slot) {
        TensorType type = plan->graph.value(id).type;
        const auto cell = prepared->states[p].shapes.find({ValueRef{0, id}, slot});
        if (cell != prepared->states[p].shapes.end()) type.shape = cell->second;
        MILLRACE_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(type));
        MILLRACE_RETURN_IF_ERROR(ReadSlice(bound, binding.slice, slot, type, part.mutable_bytes()));
        parts.push_back(std::move(part));
      }
      return StackTensors(parts);
    }
  }
  return UsageError(StrCat("value '", plan->graph.value(id).name, "' is not bound"));
}

Adversary::Adversary() : state_(std::make_unique<State>()) {}
Adversary::~Adversary() = default;

absl::StatusOr<std::unique_ptr<Adversary>> Adversary::Create(const PlanBundle& plan,
                                                             const AdversaryOptions& options) {
  auto adversary = std::unique_ptr<Adversary>(new Adversary());
  adversary->state_->plan = &plan;
  adversary->state_->options = options;
  MILLRACE_RETURN_IF_ERROR(adversary->state_->Prepare());
  MILLRACE_RETURN_IF_ERROR(adversary->state_->Load());
  return adversary;
}

absl::Status Adversary::Step(const std::map<std::string, Tensor>& inputs) {
  const PlanBundle& plan = *state_->plan;
  for (const BoundProgram& bound : state_->prepared->programs) {
    for (const Binding& input : bound.program->inputs) {
      const Value& value = plan.graph.value(input.value);
      const auto given = inputs.find(value.name);
      if (given == inputs.end()) return UsageError(StrCat("no input '", value.name, "' is given"));
      const Tensor& tensor = given->second;
      const int64_t step = value.type.shape.rank() == 0 ? 0 : ByteSize(value.type);
      for (int32_t mb = 0; mb < plan.microbatches; ++mb) {
        MILLRACE_RETURN_IF_ERROR(
            WriteSlice(bound, input.slice, mb, value.type, tensor.bytes() + mb * step));
      }
    }
  }
  return state_->runner->Run(Section::kStep);
}

absl::StatusOr<Tensor> Adversary::Output(std::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const ValueId id, ValueNamed(state_->plan->graph, name));
  return state_->Read(id, &Program::outputs, state_->plan->microbatches);
}

absl::StatusOr<Tensor> Adversary::Param(std::string_view name) const {
  MILLRACE_ASSIGN_OR_RETURN(const ValueId id, ValueNamed(state_->plan->graph, name));
  return state_->Read(id, &Program::loads, 1);
}

int64_t Adversary::choices() const { return state_->runner->choices(); }

}  // namespace millrace
