// Elementwise functions of one operand.
#include <numbers>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct TanhFn {
  template <typename C>
  static C Apply(C x) {
    return std::tanh(x);
  }
};
struct ErfFn {
  template <typename C>
  static C Apply(C x) {
    return std::erf(x);
  }
};
struct ExpFn {
  template <typename C>
  static C Apply(C x) {
    return std::exp(x);
  }
};
struct SqrtFn {
  template <typename C>
  static C Apply(C x) {
    return std::sqrt(x);
  }
};
struct SigmoidFn {
  template <typename C>
  static C Apply(C x) {
    return 1 / (1 + std::exp(-x));
  }
};
struct NegFn {
  template <typename C>
  static C Apply(C x) {
    return -x;
  }
};

absl::Status NegReference(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    MapOne<NegFn, typename decltype(tag)::type>(c.inputs[0], c.outputs[0]);
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> NegRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

// The derivative at (x, y = f(x)), for a chain rule that is the same for all.
using Derivative = Term (*)(const Term& x, const Term& y);

template <Derivative kDerivative>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, f.output_grad(0) * kDerivative(f.input(0), f.output(0)));
  return absl::OkStatus();
}

Term TanhDerivative(const Term&, const Term& y) { return 1 - y * y; }
Term ErfDerivative(const Term& x, const Term&) {
  return 2 * std::numbers::inv_sqrtpi * Apply("Exp", {-(x * x)});
}
Term ExpDerivative(const Term&, const Term& y) { return y; }
Term SqrtDerivative(const Term&, const Term& y) { return Scalar(y, 0.5) / y; }
Term SigmoidDerivative(const Term&, const Term& y) { return y * (1 - y); }

absl::Status NegGradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, -f.output_grad(0));
  return absl::OkStatus();
}

OpDef Unary(std::string name, std::string doc, std::string scalar_op) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = std::move(scalar_op),
          .infer = InferLikeInput,
          .sharding = MonotoneRules};
}

}  // namespace

OpDef TanhOp() {
  OpDef op = Unary("Tanh", "Hyperbolic tangent", "tanh");
  op.reference = MapFloats<TanhFn>;
  op.gradient = Gradient<TanhDerivative>;
  return op;
}

OpDef ErfOp() {
  OpDef op = Unary("Erf", "Error function", "erf");
  op.reference = MapFloats<ErfFn>;
  op.gradient = Gradient<ErfDerivative>;
  return op;
}

OpDef ExpOp() {
  OpDef op = Unary("Exp", "e to the power X", "exp");
  op.reference = MapFloats<ExpFn>;
  op.gradient = Gradient<ExpDerivative>;
  return op;
}

OpDef SqrtOp() {
  OpDef op = Unary("Sqrt", "Square root; NaN below zero", "sqrt");
  op.reference = MapFloats<SqrtFn>;
  op.gradient = Gradient<SqrtDerivative>;
  op.sharding = ElementwiseRules;  // monotone, but a partial maximum may lie below zero
  return op;
}

OpDef SigmoidOp() {
  OpDef op = Unary("Sigmoid", "1 / (1 + exp(-X))", "sigmoid");
  op.reference = MapFloats<SigmoidFn>;
  op.gradient = Gradient<SigmoidDerivative>;
  return op;
}

OpDef NegOp() {
  OpDef op = Unary("Neg", "-X; the most negative integer is its own negative", "neg");
  op.inputs[0].dtypes = SignedTypes();
  op.reference = NegReference;
  op.gradient = NegGradient;
  op.sharding = NegRules;
  return op;
}

}  // namespace millrace
