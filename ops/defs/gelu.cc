// Gelu (ONNX opset 20): x * Phi(x), Phi being the standard normal distribution; with
// approximate="tanh", 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#include <numbers>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr double kSqrtHalf = std::numbers::sqrt2 / 2;
constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
constexpr double kCubic = 0.044715;

double Exact(double x) { return 0.5 * x * (1 + std::erf(x * kSqrtHalf)); }
double WithTanh(double x) {
  return 0.5 * x * (1 + std::tanh(kTanhScale * (x + kCubic * x * x * x)));
}

bool IsTanh(const Attrs& attrs) { return attrs.String("approximate", "none") == "tanh"; }

absl::Status Reference(const ReferenceContext& c) {
  return IsTanh(c.attrs) ? MapFloats<WithTanh>(c) : MapFloats<Exact>(c);
}

// d/dx x Phi(x) = Phi(x) + x phi(x), phi being the density.
Term ExactDerivative(const Term& x) {
  const Term cdf = 0.5 * (Apply("Erf", {x * kSqrtHalf}) + 1);
  const Term density = Apply("Exp", {-0.5 * (x * x)}) * (0.5 * kTanhScale);
  return cdf + x * density;
}

Term TanhDerivative(const Term& x) {
  const Term square = x * x;
  const Term t = Apply("Tanh", {kTanhScale * (x * (kCubic * square + 1))});
  const Term inner = kTanhScale * (3 * kCubic * square + 1);
  return 0.5 * (t + 1) + 0.5 * x * (1 - t * t) * inner;
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term x = f.input(0);
  f.set_grad(0, f.output_grad(0) * (IsTanh(f.attrs()) ? TanhDerivative(x) : ExactDerivative(x)));
  return absl::OkStatus();
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
          .infer = InferLikeInput,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules,
          .work = GeluWork};
}

}  // namespace millrace
