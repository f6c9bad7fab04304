#include "ops/cpu/row_program.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr ScalarOp kRowOps[] = {ScalarOp::kNeg,  ScalarOp::kAbs,      ScalarOp::kExp,
                                ScalarOp::kTanh, ScalarOp::kErf,      ScalarOp::kSigmoid,
                                ScalarOp::kGelu, ScalarOp::kGeluTanh, ScalarOp::kAdd,
                                ScalarOp::kSub,  ScalarOp::kMul,      ScalarOp::kDiv};

// How an operand lies over a result of these dims; nullopt: otherwise.
std::optional<RowStep::Source> SourceOf(const FusedOperand& operand, const Shape& result) {
  const Shape dense = DenseStrides(result);
  const int last = result.rank() - 1;
  bool none = true, rows_none = true, all = true;
  for (int d = 0; d <= last; ++d) {
    if (result[d] == 1) continue;
    const int64_t stride = operand.strides[d];
    none &= stride == 0;
    rows_none &= d == last ? stride == 1 : stride == 0;
    all &= stride == dense[d];
  }
  if (none) return RowStep::Source::kEach;
  if (all) return RowStep::Source::kAll;
  if (rows_none) return RowStep::Source::kRow;
  return std::nullopt;
}

std::optional<RowStep> StepOf(const FusedProgram& program, const ScalarInstruction& instruction,
                              const Shape& result) {
  if (instruction.dtype != DType::kF32) return std::nullopt;
  RowStep step = {.op = instruction.op, .a = instruction.a, .b = instruction.b};
  if (instruction.op == ScalarOp::kConstant) {
    step.source = RowStep::Source::kNumber;
    step.number = static_cast<float>(instruction.constant);
    return step;
  }
  if (instruction.op == ScalarOp::kLoad) {
    const FusedOperand& operand = program.operands[instruction.a];
    if (operand.dtype != DType::kF32 || operand.offset != 0) return std::nullopt;
    const auto source = SourceOf(operand, result);
    if (!source.has_value()) return std::nullopt;
    const bool is_result = instruction.a == 0;
    step.source = is_result ? RowStep::Source::kResult : *source;
    step.operand = instruction.a - 1;
    return step;
  }
  if (std::ranges::find(kRowOps, instruction.op) == std::end(kRowOps)) return std::nullopt;
  return step;
}

}  // namespace

std::optional<RowProgram> RowProgramOf(const FusedProduct& product) {
  const FusedProgram& program = product.epilogue;
  const Shape& result = product.plain.outputs[0]->shape;
  if (program.outputs.size() != 1 || program.outputs[0].dtype != DType::kF32 ||
      program.instructions.size() > kMaxRowSteps || result.rank() == 0 ||
      std::ssize(program.dims) != result.rank()) {
    return std::nullopt;
  }
  RowProgram rows;
  for (const ScalarInstruction& instruction : program.instructions) {
    const std::optional<RowStep> step = StepOf(program, instruction, result);
    if (!step.has_value()) return std::nullopt;
    rows.steps.push_back(*step);
  }
  rows.result = program.outputs[0].value;
  rows.steps.resize(rows.result + 1);  // what comes later nobody reads
  return rows;
}

int64_t RowScratchFloats(const RowProgram& program) {
  return static_cast<int64_t>(program.steps.size()) * kRowChunk;
}

}  // namespace millrace
