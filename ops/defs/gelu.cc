// Gelu (ONNX opset 20): x * Phi(x), Phi being the standard normal distribution; with
// approximate="tanh", 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

bool IsTanh(const Attrs& attrs) { return attrs.String("approximate", "none") == "tanh"; }

absl::Status Reference(const ReferenceContext& c) {
  return IsTanh(c.attrs) ? MapFloats<GeluTanhOf>(c) : MapFloats<GeluOf>(c);
}

// d/dx x Phi(x) = Phi(x) + x phi(x), phi being the density.
Term ExactDerivative(const Term& x) {
  const Term cdf = 0.5 * (Apply("Erf", {x * kGeluSqrtHalf}) + 1);
  const Term density = Apply("Exp", {-0.5 * (x * x)}) * (0.5 * kGeluTanhScale);
  return cdf + x * density;
}

Term TanhDerivative(const Term& x) {
  const Term square = x * x;
  const Term t = Apply("Tanh", {kGeluTanhScale * (x * (kGeluCubic * square + 1))});
  const Term inner = kGeluTanhScale * (3 * kGeluCubic * square + 1);
  return 0.5 * (t + 1) + 0.5 * x * (1 - t * t) * inner;
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term x = f.input(0);
  f.set_grad(0, f.output_grad(0) * (IsTanh(f.attrs()) ? TanhDerivative(x) : ExactDerivative(x)));
  return absl::OkStatus();
}

ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
  return ScalarUnary(IsTanh(attrs) ? ScalarOp::kGeluTanh : ScalarOp::kGelu, x[0]);
}

// erf or tanh, and the arithmetic around it.
Work GeluWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops *= IsTanh(query.attrs) ? 9 : 5;
  return work;
}

}  // namespace

OpDef GeluOp() {
  return {.name = "Gelu",
          .doc = "Gaussian error linear unit: X * Phi(X)",
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "approximate",
                     .kind = AttrKind::kString,
                     .default_value = "none",
                     .choices = {"none", "tanh"},
                     .doc = "tanh: the cheaper approximation by tanh"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar = Formula,
          .infer = InferLikeInput,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules,
          .work = GeluWork};
}

}  // namespace millrace
