// Abs, Neg, Sign: of all numeric types. Ceil, Floor, Round: of floats.
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// kFunction(x) on elements as they are, f16 and bf16 as f32, where it is exact in either.
template <auto kFunction>
absl::Status Reference(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> from = c.inputs[0].data<T>();
    const std::span<T> to = c.outputs[0].mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<T>(kFunction(static_cast<NativeType<T>>(from[i])));
    }
    return absl::OkStatus();
  });
}

absl::Status NegGradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, -f.output_grad(0));
  return absl::OkStatus();
}

absl::Status AbsGradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, f.output_grad(0) * Apply("Sign", {f.input(0)}));
  return absl::OkStatus();
}

std::vector<ShardingRule> NegRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

OpDef Unary(std::string name, std::string doc, std::string scalar_op, std::vector<DType> dtypes) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "X", .dtypes = std::move(dtypes), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = std::move(scalar_op),
          .infer = InferLikeInput,
          .gradient = ZeroGradient,
          .sharding = MonotoneRules};
}

}  // namespace

OpDef NegOp() {
  OpDef op =
      Unary("Neg", "-X; the most negative integer is its own negative", "neg", SignedTypes());
  op.reference = Reference<[](auto x) { return Negative(x); }>;
  op.gradient = NegGradient;
  op.sharding = NegRules;
  return op;
}

OpDef AbsOp() {
  OpDef op =
      Unary("Abs", "|X|; the most negative integer is its own magnitude", "abs", NumericTypes());
  op.reference = Reference<[](auto x) { return Magnitude(x); }>;
  op.gradient = AbsGradient;
  op.sharding = ElementwiseRules;
  return op;
}

OpDef SignOp() {
  OpDef op = Unary("Sign", "-1, 0 or 1; NaN where X is", "sign", NumericTypes());
  op.reference = Reference<[](auto x) { return SignOf(x); }>;
  return op;
}

OpDef CeilOp() {
  OpDef op = Unary("Ceil", "X rounded up", "ceil", FloatTypes());
  op.reference = MapFloats<[](double x) { return std::ceil(x); }>;
  return op;
}

OpDef FloorOp() {
  OpDef op = Unary("Floor", "X rounded down", "floor", FloatTypes());
  op.reference = MapFloats<[](double x) { return std::floor(x); }>;
  return op;
}

OpDef RoundOp() {
  OpDef op = Unary("Round", "X rounded to the nearest integer, to the even one of two", "round",
                   FloatTypes());
  op.reference = MapFloats<[](double x) { return std::nearbyint(x); }>;
  return op;
}

}  // namespace millrace
