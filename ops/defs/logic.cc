// Logic on bools (And, Or, Xor, Not) and on the bits of integers (BitwiseAnd, BitwiseOr,
// BitwiseXor, BitwiseNot, BitShift), with broadcasting.
#include <algorithm>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr auto kLeft = [](uint64_t a, uint64_t bits) { return a << bits; };
constexpr auto kRight = [](uint64_t a, uint64_t bits) { return a >> bits; };

template <auto kFunction>
absl::Status BoolReference(const ReferenceContext& c) {
  MapPairs<kFunction, bool, bool>(c.inputs[0], c.inputs[1], c.outputs[0]);
  return absl::OkStatus();
}

template <auto kFunction>
absl::Status BitReference(const ReferenceContext& c) {
  return VisitIntegers(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kFunction, T, T>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status NotReference(const ReferenceContext& c) {
  const std::span<const bool> x = c.inputs[0].data<bool>();
  std::transform(x.begin(), x.end(), c.outputs[0].mutable_data<bool>().begin(),
                 std::logical_not<>());
  return absl::OkStatus();
}

absl::Status BitwiseNotReference(const ReferenceContext& c) {
  const std::byte* x = c.inputs[0].bytes();
  std::transform(x, x + c.inputs[0].size_bytes(), c.outputs[0].mutable_bytes(), std::bit_not<>());
  return absl::OkStatus();
}

// By as many bits as there are, or more, everything is shifted out.
template <auto kShift>
absl::Status Shifted(const ReferenceContext& c) {
  return BitReference<[](auto a, auto b) {
    const auto bits = static_cast<uint64_t>(b);
    return bits >= sizeof(a) * 8 ? 0 : kShift(static_cast<uint64_t>(a), bits);
  }>(c);
}

absl::Status ShiftReference(const ReferenceContext& c) {
  return c.attrs.String("direction", "") == "LEFT" ? Shifted<kLeft>(c) : Shifted<kRight>(c);
}

OpDef Binary(std::string name, std::string doc, std::vector<DType> dtypes, ReferenceFn reference) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "A", .dtypes = dtypes, .same_as = "T"},
                     {.name = "B", .dtypes = dtypes, .same_as = "T"}},
          .outputs = {{.name = "C", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}, {0, 1}}},
          .fusion = FusionClass::kElementwise,
          .infer = InferBroadcast,
          .reference = reference,
          .gradient = ZeroGradient,
          .sharding = ElementwiseRules};
}

OpDef OfBools(std::string name, std::string doc, std::string scalar_op, ReferenceFn reference) {
  OpDef op = Binary(std::move(name), std::move(doc), {DType::kBool}, reference);
  op.scalar_op = std::move(scalar_op);
  return op;
}

OpDef OfBits(std::string name, std::string doc, ReferenceFn reference) {
  OpDef op = Binary(std::move(name), std::move(doc), IntegerTypes(), reference);
  op.tier = 2;
  return op;
}

// `op` of one operand.
OpDef Unary(OpDef op) {
  op.inputs = {op.inputs[0]};
  op.inputs[0].name = "X";
  op.outputs[0].name = "Y";
  op.traits.in_place = {{0, 0}};
  op.infer = InferLikeInput;
  return op;
}

}  // namespace

OpDef AndOp() { return OfBools("And", "Both are true; broadcast", "and", BoolReference<kAnd>); }
OpDef OrOp() { return OfBools("Or", "Either is true; broadcast", "or", BoolReference<kOr>); }
OpDef XorOp() {
  return OfBools("Xor", "One of the two is true; broadcast", "xor", BoolReference<kXor>);
}
OpDef NotOp() { return Unary(OfBools("Not", "X is false", "not", NotReference)); }

OpDef BitwiseAndOp() {
  return OfBits("BitwiseAnd", "The bits set in both; broadcast", BitReference<kAnd>);
}
OpDef BitwiseOrOp() {
  return OfBits("BitwiseOr", "The bits set in either; broadcast", BitReference<kOr>);
}
OpDef BitwiseXorOp() {
  return OfBits("BitwiseXor", "The bits set in one of the two; broadcast", BitReference<kXor>);
}
OpDef BitwiseNotOp() {
  return Unary(OfBits("BitwiseNot", "The bits that are not set", BitwiseNotReference));
}

OpDef BitShiftOp() {
  OpDef op = OfBits("BitShift", "X shifted by Y bits, zeros coming in; broadcast", ShiftReference);
  op.inputs[0].name = "X";
  op.inputs[1].name = "Y";
  for (OperandSpec& input : op.inputs) {
    input.dtypes = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
  }
  op.attrs = {{.name = "direction",
               .kind = AttrKind::kString,
               .required = true,
               .choices = {"LEFT", "RIGHT"},
               .doc = "RIGHT: towards the lowest bit"}};
  return op;
}

}  // namespace millrace
