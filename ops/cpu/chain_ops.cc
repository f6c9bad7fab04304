#include "ops/cpu/chain_ops.h"

#include <algorithm>
#include <bit>
#include <span>

#include "graph/half.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

bool IsFloatLane(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

struct UnaryEntry {
  ScalarOp scalar;
  ChainOp op;
};
struct PairEntry {
  ScalarOp scalar;
  PairOps ops;
};

constexpr UnaryEntry kFloatUnary[] = {
    {ScalarOp::kNeg, ChainOp::kNeg},           {ScalarOp::kAbs, ChainOp::kAbs},
    {ScalarOp::kSign, ChainOp::kSign},         {ScalarOp::kExp, ChainOp::kExp},
    {ScalarOp::kLog, ChainOp::kLog},           {ScalarOp::kSqrt, ChainOp::kSqrt},
    {ScalarOp::kRsqrt, ChainOp::kRsqrt},       {ScalarOp::kReciprocal, ChainOp::kReciprocal},
    {ScalarOp::kTanh, ChainOp::kTanh},         {ScalarOp::kErf, ChainOp::kErf},
    {ScalarOp::kSigmoid, ChainOp::kSigmoid},   {ScalarOp::kExpm1, ChainOp::kExpm1},
    {ScalarOp::kSoftplus, ChainOp::kSoftplus}, {ScalarOp::kGelu, ChainOp::kGelu},
    {ScalarOp::kGeluTanh, ChainOp::kGeluTanh}, {ScalarOp::kFloor, ChainOp::kFloor},
    {ScalarOp::kCeil, ChainOp::kCeil},         {ScalarOp::kRound, ChainOp::kRound},
    {ScalarOp::kIsNaN, ChainOp::kIsNaN},
};
constexpr UnaryEntry kIntUnary[] = {{ScalarOp::kNeg, ChainOp::kNegI},
                                    {ScalarOp::kAbs, ChainOp::kAbsI}};
constexpr UnaryEntry kBoolUnary[] = {{ScalarOp::kNot, ChainOp::kNot}};

using enum ChainOp;
constexpr PairEntry kFloatPairs[] = {
    {ScalarOp::kAdd, {kAdd, kAdd}},          {ScalarOp::kSub, {kSub, kSubFrom}},
    {ScalarOp::kMul, {kMul, kMul}},          {ScalarOp::kDiv, {kDiv, kDivInto}},
    {ScalarOp::kMin, {kMin, kMinOf}},        {ScalarOp::kMax, {kMax, kMaxOf}},
    {ScalarOp::kEqual, {kEqual, kEqual}},    {ScalarOp::kNotEqual, {kNotEqual, kNotEqual}},
    {ScalarOp::kLess, {kLess, kGreater}},    {ScalarOp::kLessEqual, {kLessEqual, kGreaterEqual}},
    {ScalarOp::kGreater, {kGreater, kLess}}, {ScalarOp::kGreaterEqual, {kGreaterEqual, kLessEqual}},
};
constexpr PairEntry kIntPairs[] = {
    {ScalarOp::kAdd, {kAddI, kAddI}},
    {ScalarOp::kSub, {kSubI, kSubFromI}},
    {ScalarOp::kMul, {kMulI, kMulI}},
    {ScalarOp::kMin, {kMinI, kMinI}},
    {ScalarOp::kMax, {kMaxI, kMaxI}},
    {ScalarOp::kAnd, {kAnd, kAnd}},
    {ScalarOp::kOr, {kOr, kOr}},
    {ScalarOp::kXor, {kXor, kXor}},
    {ScalarOp::kEqual, {kEqualI, kEqualI}},
    {ScalarOp::kNotEqual, {kNotEqualI, kNotEqualI}},
    {ScalarOp::kLess, {kLessI, kGreaterI}},
    {ScalarOp::kLessEqual, {kLessEqualI, kGreaterEqualI}},
    {ScalarOp::kGreater, {kGreaterI, kLessI}},
    {ScalarOp::kGreaterEqual, {kGreaterEqualI, kLessEqualI}},
};
// Nobody orders bools; as ints, all ones are equal.
constexpr PairEntry kBoolPairs[] = {
    {ScalarOp::kAnd, {kAnd, kAnd}},
    {ScalarOp::kOr, {kOr, kOr}},
    {ScalarOp::kXor, {kXor, kXor}},
    {ScalarOp::kEqual, {kEqualI, kEqualI}},
    {ScalarOp::kNotEqual, {kNotEqualI, kNotEqualI}},
};

// Of three tables the one for lanes of `dtype`.
template <typename Entry>
const Entry* FindEntry(ScalarOp op, DType dtype, std::span<const Entry> floats,
                       std::span<const Entry> ints, std::span<const Entry> bools) {
  const auto table = IsFloatLane(dtype) ? floats : dtype == DType::kI32 ? ints : bools;
  const auto it = std::ranges::find(table, op, &Entry::scalar);
  return it == table.end() ? nullptr : &*it;
}

}  // namespace

bool HasLane(DType dtype) {
  return IsFloatLane(dtype) || dtype == DType::kI32 || dtype == DType::kBool;
}

float LaneOf(DType dtype, double value) {
  switch (dtype) {
    case DType::kI32:
      return std::bit_cast<float>(ConvertTo<int32_t>(value));
    case DType::kBool:
      return std::bit_cast<float>(value != 0 ? -1 : 0);
    case DType::kF16:
      return static_cast<float>(ConvertTo<Half>(value));
    case DType::kBF16:
      return static_cast<float>(ConvertTo<BFloat16>(value));
    default:
      return static_cast<float>(value);
  }
}

std::optional<ChainOp> UnaryOf(ScalarOp op, DType operand) {
  const UnaryEntry* entry = FindEntry<UnaryEntry>(op, operand, kFloatUnary, kIntUnary, kBoolUnary);
  return entry != nullptr ? std::optional(entry->op) : std::nullopt;
}

std::optional<PairOps> BinaryOf(ScalarOp op, DType operands) {
  const PairEntry* entry = FindEntry<PairEntry>(op, operands, kFloatPairs, kIntPairs, kBoolPairs);
  return entry != nullptr ? std::optional(entry->ops) : std::nullopt;
}

ChainOp ReduceOf(ScalarOp op) {
  return op == ScalarOp::kReduceMax    ? kReduceMax
         : op == ScalarOp::kReduceMin  ? kReduceMin
         : op == ScalarOp::kReduceProd ? kReduceProd
                                       : kReduceSum;
}

int OperandCount(ChainOp op) {
#define MILLRACE_CHAIN_CASE(name) case ChainOp::k##name:
  switch (op) {
    MILLRACE_CHAIN_UNARY(MILLRACE_CHAIN_CASE)
    case ChainOp::kEnd:
      return 0;
      MILLRACE_CHAIN_BINARY(MILLRACE_CHAIN_CASE)
    case ChainOp::kLoad:
    case ChainOp::kStore:
      return 1;
    default:
      return 2;
  }
#undef MILLRACE_CHAIN_CASE
}

ChainOp CastOf(DType from, DType to) {
  if (IsFloatLane(from)) {
    return IsFloatLane(to) ? kLoad : to == DType::kBool ? kBoolOfFloat : kIntOfFloat;
  }
  if (from == DType::kBool) {
    return IsFloatLane(to) ? kFloatOfBool : to == DType::kBool ? kLoad : kIntOfBool;
  }
  return IsFloatLane(to) ? kFloatOfInt : to == DType::kBool ? kBoolOfInt : kLoad;
}

bool HasCast(DType from, DType to) {
  return from != DType::kI32 || (to != DType::kF16 && to != DType::kBF16);
}

bool IsChainOp(const FusedProgram& program, const ScalarInstruction& s) {
  if (!HasLane(s.dtype) || s.op == ScalarOp::kIndex) return false;
  if (Arity(s.op) == 0 || s.op == ScalarOp::kSelect) return true;
  const DType operands = program.instructions[s.a].dtype;
  if (!HasLane(operands)) return false;
  if (s.op == ScalarOp::kCast) return HasCast(operands, s.dtype);
  if (IsReduction(s.op) || s.op == ScalarOp::kFma) return s.dtype == DType::kF32;
  if (Arity(s.op) == 1) return UnaryOf(s.op, operands).has_value();
  return BinaryOf(s.op, operands).has_value();
}

}  // namespace millrace
