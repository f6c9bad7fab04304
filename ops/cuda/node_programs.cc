#include "ops/cuda/node_programs.h"

#include <algorithm>

#include "ops/cuda/program_source.h"
#include "ops/cuda/split_program.h"
#include "ops/op_def.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

// A program over the elements of `type`, which it copies.
ProgramStep CopyStep(DType dtype, int64_t elements, CudaParam from, CudaParam to) {
  ProgramStep step;
  step.program = ProgramOver({elements});
  StoreOutput(step.program, LoadOperand(step.program, {dtype, {elements}}, {elements}));
  step.operands = {from};
  step.outputs = {to};
  return step;
}

// The operand as it is.
bool IsPlainCopy(const FusedProgram& p) {
  return p.operands.size() == 1 && p.outputs.size() == 1 && p.instructions.size() == 1 &&
         p.operands[0].dtype == p.outputs[0].dtype && p.operands[0].offset == p.outputs[0].offset &&
         p.operands[0].strides == p.outputs[0].strides;
}

// Results that may not lie on operands are written to scratch, and copied when all is read.
void KeepApart(const NodeQuery& query, ProgramSteps& steps) {
  ProgramStep& step = steps.steps[0];
  std::vector<ProgramStep> copies;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const CudaParam to = step.outputs[o];
    const TensorType& type = *query.outputs[static_cast<size_t>(to.index)];
    const int64_t at = steps.scratch_bytes;
    steps.scratch_bytes += (to.size_bytes + 255) / 256 * 256;
    step.outputs[o] = ScratchParam(at, to.size_bytes, false, true);
    copies.push_back(CopyStep(type.dtype, NumElements(type.shape),
                              ScratchParam(at, to.size_bytes, true, false), to));
  }
  for (ProgramStep& copy : copies) steps.steps.push_back(std::move(copy));
}

}  // namespace

std::optional<ProgramSteps> FusedSteps(const NodeQuery& query) {
  if (query.op != "fused.Program") return std::nullopt;
  absl::StatusOr<FusedProgram> parsed = ParseFusedProgram(query.attrs.String("program", ""));
  if (!parsed.ok()) return std::nullopt;
  ProgramSteps steps;
  ProgramStep& step = steps.steps.emplace_back();
  step.program = *std::move(parsed);
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    step.operands.push_back(InputParam(query, i));
  }
  std::vector<FusedOutput> wanted;
  for (size_t k = 0; k < query.outputs.size(); ++k) {
    if (!query.outputs[k].has_value()) continue;
    wanted.push_back(step.program.outputs[k]);
    step.outputs.push_back(OutputParam(query, k));
  }
  step.program.outputs = std::move(wanted);
  if (!MayLieInPlace(step.program, step.operands, step.outputs)) KeepApart(query, steps);
  return steps;
}

std::optional<ProgramSteps> FormulaSteps(const NodeQuery& query) {
  if (!IsScalarNode(query) && !RowAxesOf(query).has_value()) return std::nullopt;
  ProgramSteps steps;
  ProgramStep& step = steps.steps.emplace_back();
  step.program = NodeProgram(query);
  const std::vector<int>& host = FindOp(query.op)->traits.host_inputs;
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    if (!query.inputs[i].has_value()) continue;
    if (std::ranges::find(host, static_cast<int>(i)) != host.end()) continue;
    step.operands.push_back(InputParam(query, i));
  }
  step.outputs = {OutputParam(query, 0)};
  return steps;
}

std::optional<CudaWork> WorkOfSteps(ProgramSteps steps, std::string_view name) {
  CudaWork work;
  work.scratch_bytes = steps.scratch_bytes;
  for (ProgramStep& step : steps.steps) {
    std::vector<ProgramStep> parts = SplitLongRows(std::move(step), work.scratch_bytes);
    for (ProgramStep& part : parts) {
      std::optional<CudaLaunch> launch =
          ProgramLaunch(part.program, name, part.operands, part.outputs);
      if (!launch.has_value()) return std::nullopt;
      launch->copies = IsPlainCopy(part.program);
      work.launches.push_back(*std::move(launch));
    }
  }
  return work;
}

}  // namespace millrace
