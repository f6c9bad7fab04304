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

std::vector<ScalarTerm> Widened(std::span<const ScalarTerm> inputs) {
  std::vector<ScalarTerm> wide;
  for (const ScalarTerm& input : inputs) {
    const bool widen = input.valid() && IsHalfType(input.dtype);
    wide.push_back(widen ? CastTo(input, DType::kF32) : input);
  }
  return wide;
}

ScalarTerm Narrowed(const ScalarTerm& result, DType dtype) {
  return result.valid() && IsHalfType(dtype) ? CastTo(result, dtype) : result;
}

ScalarTerm AppendFormula(const OpDef& op, const NodeQuery& query,
                         std::span<const ScalarTerm> inputs) {
  Attrs storage;
  const Attrs& attrs = WithDefaults(op, query.attrs, storage);
  return Narrowed(op.scalar(attrs, Widened(inputs)), query.outputs[0]->dtype);
}

std::optional<RowForm> AppendRow(const NodeQuery& query, std::span<const ScalarTerm> inputs) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->row == nullptr || !inputs[0].valid() || !IsFloat(inputs[0].dtype)) {
    return std::nullopt;
  }
  NodeQuery full = query;
  Attrs storage;
  if (const Attrs& filled = WithDefaults(*op, query.attrs, storage); &filled != &query.attrs) {
    full.attrs = Attrs(filled);
  }
  std::optional<RowForm> form = op->row(full, Widened(inputs));
  if (form.has_value()) form->result = Narrowed(form->result, query.outputs[0]->dtype);
  return form;
}

ScalarTerm AppendIfScalar(const NodeQuery& query, std::span<const ScalarTerm> inputs) {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->fusion != FusionClass::kElementwise || inputs.empty()) return {};
  if (op->scalar != nullptr) return AppendFormula(*op, query, inputs);
  const std::optional<ScalarOp> direct = ParseScalarOp(op->scalar_op);
  if (!direct.has_value()) return {};
  return AppendDirect(*direct, inputs, query.outputs[0]->dtype);
}

// Only output 0 is asked for.
bool HasOneResult(const NodeQuery& query) {
  return !query.outputs.empty() && query.outputs[0].has_value() &&
         std::all_of(query.outputs.begin() + 1, query.outputs.end(),
                     [](const auto& type) { return !type.has_value(); });
}

// A load for each input that is there, to try formulas with.
std::vector<ScalarTerm> TrialInputs(const NodeQuery& query, FusedProgram& trial) {
  std::vector<ScalarTerm> inputs;
  for (const std::optional<TensorType>& type : query.inputs) {
    ScalarTerm& input = inputs.emplace_back();
    if (!type.has_value()) continue;
    const auto operand = static_cast<int32_t>(trial.operands.size());
    trial.operands.push_back({.dtype = type->dtype, .offset = 0, .strides = {}});
    input = AppendScalar(trial, {.op = ScalarOp::kLoad, .dtype = type->dtype, .a = operand});
  }
  return inputs;
}

}  // namespace

bool IsScalarNode(const NodeQuery& query) {
  if (!HasOneResult(query)) return false;
  FusedProgram trial;
  const ScalarTerm result = AppendIfScalar(query, TrialInputs(query, trial));
  return result.valid() && result.dtype == query.outputs[0]->dtype;
}

std::optional<std::vector<int>> RowAxesOf(const NodeQuery& query) {
  if (!HasOneResult(query) || query.inputs.empty()) return std::nullopt;
  FusedProgram trial;
  const std::optional<RowForm> form = AppendRow(query, TrialInputs(query, trial));
  return form.has_value() ? std::optional(form->axes) : std::nullopt;
}

ScalarTerm AppendNode(const NodeQuery& query, std::span<const ScalarTerm> inputs) {
  const OpDef* op = FindOp(query.op);
  if (op != nullptr && op->row != nullptr) {
    const std::optional<RowForm> form = AppendRow(query, inputs);
    MILLRACE_CHECK(form.has_value());
    return form->result;
  }
  const ScalarTerm result = AppendIfScalar(query, inputs);
  MILLRACE_CHECK(result.valid());
  return result;
}

double RowCount(const Shape& shape, std::span<const int> axes) {
  double count = 1;
  for (int axis : axes) count *= static_cast<double>(shape[axis]);
  return count;
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

void StoreOutput(FusedProgram& program, const ScalarTerm& value, bool reduced) {
  Shape space;
  const auto is_gone = [&](const IndexDim& dim) { return reduced && dim.role == DimRole::kReduce; };
  for (const IndexDim& dim : program.dims) space.push_back(is_gone(dim) ? 1 : dim.size);
  const Shape dense = DenseStrides(space);
  std::vector<int64_t> strides;
  for (size_t d = 0; d < program.dims.size(); ++d) {
    strides.push_back(is_gone(program.dims[d]) ? 0 : dense[static_cast<int>(d)]);
  }
  program.outputs.push_back(
      {.value = value.value, .dtype = value.dtype, .offset = 0, .strides = std::move(strides)});
}

FusedProgram NodeProgram(const NodeQuery& query) {
  const std::optional<std::vector<int>> axes = RowAxesOf(query);
  const Shape& space = axes.has_value() ? query.inputs[0]->shape : query.outputs[0]->shape;
  FusedProgram program = ProgramOver(space);
  for (int axis : axes.value_or(std::vector<int>())) program.dims[axis].role = DimRole::kReduce;
  const std::vector<int>& host = FindOp(query.op)->traits.host_inputs;
  std::vector<ScalarTerm> inputs;
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    const bool is_read =
        query.inputs[i].has_value() && std::ranges::find(host, static_cast<int>(i)) == host.end();
    inputs.push_back(is_read ? LoadOperand(program, *query.inputs[i], space) : ScalarTerm());
  }
  StoreOutput(program, AppendNode(query, inputs),
              axes.has_value() && query.outputs[0]->shape != space);
  return program;
}

}  // namespace millrace
