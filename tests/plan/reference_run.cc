#include "tests/plan/reference_run.h"

#include <cstring>
#include <memory>
#include <optional>

#include "graph/weights.h"
#include "tests/plan/program_writer.h"
#include "ops/evaluate_graph.h"

namespace millrace {
namespace {

// The node that an instruction computes.
NodeId ComputedNode(const Instruction& instruction) {
  if (const auto* i = std::get_if<Launch>(&instruction.body)) return i->node;
  if (const auto* i = std::get_if<Call>(&instruction.body)) return i->node;
  if (const auto* i = std::get_if<HostCall>(&instruction.body)) return i->node;
  return NodeId();
}

// Rows [first, first + type's dim 0) of a stacked tensor.
Tensor Unstack(const Tensor& stacked, const TensorType& type, int32_t microbatch) {
  Tensor part = Tensor::Zeros(type);
  std::memcpy(part.mutable_bytes(), stacked.bytes() + microbatch * part.size_bytes(),
              part.size_bytes());
  return part;
}

}  // namespace

Tensor Stack(const std::vector<Tensor>& tensors) {
  TensorType type = tensors[0].type();
  type.shape[0] = 0;
  for (const Tensor& t : tensors) type.shape[0] += t.shape()[0];
  Tensor stacked = Tensor::Zeros(type);
  std::byte* to = stacked.mutable_bytes();
  for (const Tensor& t : tensors) {
    std::memcpy(to, t.bytes(), t.size_bytes());
    to += t.size_bytes();
  }
  return stacked;
}

ReferenceRun::ReferenceRun(const PlanBundle& plan) : plan_(plan) {
  WeightStore weights(plan.graph);
  for (const ValueId id : plan.graph.params) params_[id] = weights.Get(id).value();
  for (const ValueId id : plan.graph.constants) {
    loaded_[{id, kEveryMicrobatch}] = weights.Get(id).value();
  }
  RunSection(Section::kInit);
}

void ReferenceRun::Step(const std::map<std::string, Tensor>& inputs) {
  step_values_.clear();
  for (const ValueId id : plan_.graph.inputs) {
    const Value& value = plan_.graph.value(id);
    for (int32_t mb = 0; mb < plan_.microbatches; ++mb) {
      step_values_[{id, mb}] = Unstack(inputs.at(value.name), value.type, mb);
    }
  }
  RunSection(Section::kStep);
}

// Each program goes through its schedule as far as the values it needs are there, in turns.
void ReferenceRun::RunSection(Section section) {
  std::vector<size_t> next(plan_.programs.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t p = 0; p < next.size(); ++p) {
      const Program& program = plan_.programs[p];
      const std::vector<ScheduleItem>& schedule = program.schedule(section);
      while (next[p] < schedule.size() &&
             TryRun(program.segments[schedule[next[p]].segment.index], schedule[next[p]].microbatch,
                    section == Section::kInit)) {
        ++next[p];
        progress = true;
      }
    }
  }
  for (size_t p = 0; p < next.size(); ++p) {
    MILLRACE_CHECK(next[p] == plan_.programs[p].schedule(section).size());
  }
}

const Tensor* ReferenceRun::Find(ValueId value, int32_t microbatch) const {
  if (const auto param = params_.find(value); param != params_.end()) return &param->second;
  if (const auto found = loaded_.find({value, kEveryMicrobatch}); found != loaded_.end()) {
    return &found->second;
  }
  const auto found = step_values_.find({value, microbatch});
  return found == step_values_.end() ? nullptr : &found->second;
}

// False, changing nothing that matters, when a value is not there yet.
bool ReferenceRun::TryRun(const Segment& segment, int32_t microbatch, bool init) {
  for (const Instruction& instruction : segment.instructions) {
    const NodeId id = ComputedNode(instruction);
    if (!id.valid()) continue;
    const Node& node = plan_.graph.node(id);
    std::vector<Tensor> operands;
    for (const ValueId input : node.inputs) {
      const Tensor* operand = input.valid() ? Find(input, microbatch) : nullptr;
      if (input.valid() && operand == nullptr) return false;
      operands.push_back(operand != nullptr ? *operand : Tensor());
    }
    const std::vector<Tensor> results = EvaluateNode(plan_.graph, node, operands).value();
    for (size_t i = 0; i < results.size(); ++i) {
      if (init) {
        loaded_[{node.outputs[i], kEveryMicrobatch}] = results[i];
      } else {
        step_values_[{node.outputs[i], microbatch}] = results[i];
      }
    }
  }
  // Only now: the instance itself read the versions from before.
  for (const Instruction& instruction : segment.instructions) {
    const NodeId id = ComputedNode(instruction);
    for (const Update& update : plan_.graph.updates) {
      if (id.valid() && plan_.graph.value(update.value).producer == id) {
        params_[update.param] = *Find(update.value, microbatch);
      }
    }
  }
  return true;
}

Tensor ReferenceRun::Output(std::string_view name) const {
  std::vector<Tensor> parts;
  for (int32_t mb = 0; mb < plan_.microbatches; ++mb) {
    parts.push_back(*Find(FindValue(plan_.graph, name), mb));
  }
  return Stack(parts);
}

Tensor ReferenceRun::Param(std::string_view name) const {
  return params_.at(FindValue(plan_.graph, name));
}

}  // namespace millrace
