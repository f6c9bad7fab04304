#include "ops/scalar_program.h"

#include <algorithm>

#include "graph/assert.h"
#include "ops/broadcast.h"
#include "ops/signature.h"

namespace millrace {

ScalarTerm AppendScalar(FusedProgram& program, const ScalarInstruction& instruction) {
  std::vector<ScalarInstruction>& all = program.instructions;
  auto at = std::find(all.begin(), all.end(), instruction);
  if (at == all.end()) at = all.insert(all.end(), instruction);
  return {&program, static_cast<int32_t>(at - all.begin()), instruction.dtype};
}

ScalarTerm ScalarUnary(ScalarOp op, const ScalarTerm& a) {
  const DType dtype = op == ScalarOp::kIsNaN ? DType::kBool : a.dtype;
  return AppendScalar(*a.program, {.op = op, .dtype = dtype, .a = a.value});
}

ScalarTerm ScalarBinary(ScalarOp op, const ScalarTerm& a, const ScalarTerm& b) {
  const DType dtype = IsComparison(op) ? DType::kBool : a.dtype;
  return AppendScalar(*a.program, {.op = op, .dtype = dtype, .a = a.value, .b = b.value});
}

ScalarTerm ScalarConstant(const ScalarTerm& like, double value) {
  return AppendScalar(*like.program,
                      {.op = ScalarOp::kConstant, .dtype = like.dtype, .constant = value});
}

ScalarTerm Select(const ScalarTerm& condition, const ScalarTerm& a, const ScalarTerm& b) {
  return AppendScalar(*a.program, {.op = ScalarOp::kSelect,
                                   .dtype = a.dtype,
                                   .a = condition.value,
                                   .b = a.value,
                                   .c = b.value});
}

ScalarTerm Fma(const ScalarTerm& a, const ScalarTerm& b, const ScalarTerm& c) {
  return AppendScalar(
      *a.program,
      {.op = ScalarOp::kFma, .dtype = a.dtype, .a = a.value, .b = b.value, .c = c.value});
}

ScalarTerm CastTo(const ScalarTerm& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return AppendScalar(*x.program, {.op = ScalarOp::kCast, .dtype = dtype, .a = x.value});
}

ScalarTerm Between(const ScalarTerm& x, const ScalarTerm& low, const ScalarTerm& high) {
  const ScalarTerm raised = low.valid() ? Select(x < low, low, x) : x;
  return high.valid() ? Select(high < raised, high, raised) : raised;
}

namespace {

bool IsHalfType(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

ScalarTerm AppendDirect(ScalarOp op, std::span<const ScalarTerm> inputs, DType result) {
  switch (op) {
    case ScalarOp::kCast:
      return CastTo(inputs[0], result);
    case ScalarOp::kSelect:
      return Select(inputs[0], inputs[1], inputs[2]);
    default:
      break;
  }
  if (Arity(op) == 1) return ScalarUnary(op, inputs[0]);
  if (inputs[0].dtype != inputs[1].dtype) return {};  // Pow by another type
  if (op == ScalarOp::kPow && !IsFloat(inputs[0].dtype)) return {};
  return ScalarBinary(op, inputs[0], inputs[1]);
}

ScalarTerm AppendFormula(const OpDef& op, const NodeQuery& query,
                         std::span<const ScalarTerm> inputs) {
  Attrs storage;
  const Attrs& attrs = WithDefaults(op, query.attrs, storage);
  std::vector<ScalarTerm> wide;
  for (const ScalarTerm& input : inputs) {
    const bool widen = input.valid() && IsHalfType(input.dtype);
    wide.push_back(widen ? CastTo(input, DType::kF32) : input);
  }
  const ScalarTerm result = op.scalar(attrs, wide);
  return result.valid() && IsHalfType(query.outputs[0]->dtype)
             ? CastTo(result, query.outputs[0]->dtype)
             : result;
}

ScalarTerm AppendIfScalar(const NodeQuery& query, std::span<const ScalarTerm> inputs) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->fusion != FusionClass::kElementwise || inputs.empty()) return {};
  if (op->scalar != nullptr) return AppendFormula(*op, query, inputs);
  const std::optional<ScalarOp> direct = ParseScalarOp(op->scalar_op);
  if (!direct.has_value()) return {};
  return AppendDirect(*direct, inputs, query.outputs[0]->dtype);
}

}  // namespace

bool IsScalarNode(const NodeQuery& query) {
  if (query.outputs.empty() || !query.outputs[0].has_value()) return false;
  for (size_t i = 1; i < query.outputs.size(); ++i) {
    if (query.outputs[i].has_value()) return false;
  }
  FusedProgram trial;
  std::vector<ScalarTerm> inputs;
  for (const std::optional<TensorType>& type : query.inputs) {
    ScalarTerm& input = inputs.emplace_back();
    if (!type.has_value()) continue;
    const auto operand = static_cast<int32_t>(trial.operands.size());
    trial.operands.push_back({.dtype = type->dtype, .offset = 0, .strides = {}});
    input = AppendScalar(trial, {.op = ScalarOp::kLoad, .dtype = type->dtype, .a = operand});
  }
  const ScalarTerm result = AppendIfScalar(query, inputs);
  return result.valid() && result.dtype == query.outputs[0]->dtype;
}

ScalarTerm AppendNode(const NodeQuery& query, std::span<const ScalarTerm> inputs) {
  const ScalarTerm result = AppendIfScalar(query, inputs);
  MILLRACE_CHECK(result.valid());
  return result;
}

ScalarTerm LoadOperand(FusedProgram& program, const TensorType& type, const Shape& space) {
  const auto operand = static_cast<int32_t>(program.operands.size());
  std::vector<int64_t> strides(space.rank(), 0);
  if (NumElements(type.shape) != 1) {  // one of any rank goes with everything
    std::ranges::copy(BroadcastStrides(type.shape, space), strides.begin());
  }
  program.operands.push_back({.dtype = type.dtype, .offset = 0, .strides = std::move(strides)});
  return AppendScalar(program, {.op = ScalarOp::kLoad, .dtype = type.dtype, .a = operand});
}

FusedProgram ProgramOver(const Shape& space) {
  FusedProgram program;
  for (int64_t size : space) program.dims.push_back({.size = size, .role = DimRole::kOuter});
  return program;
}

void StoreOutput(FusedProgram& program, const ScalarTerm& value) {
  Shape space;
  for (const IndexDim& dim : program.dims) space.push_back(dim.size);
  const Shape strides = DenseStrides(space);
  program.outputs.push_back({.value = value.value,
                             .dtype = value.dtype,
                             .offset = 0,
                             .strides = {strides.begin(), strides.end()}});
}

FusedProgram NodeProgram(const NodeQuery& query) {
  const Shape& space = query.outputs[0]->shape;
  FusedProgram program = ProgramOver(space);
  std::vector<ScalarTerm> inputs;
  for (const std::optional<TensorType>& type : query.inputs) {
    inputs.push_back(type.has_value() ? LoadOperand(program, *type, space) : ScalarTerm());
  }
  StoreOutput(program, AppendNode(query, inputs));
  return program;
}

}  // namespace millrace
