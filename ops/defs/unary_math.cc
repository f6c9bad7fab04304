// Functions of one float.
#include <numbers>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// The chain rule, with the derivative as a formula in x and y = f(x).
template <auto kDerivative>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, f.output_grad(0) * kDerivative(f.input(0), f.output(0)));
  return absl::OkStatus();
}

// kFunction(double) -> double; kDerivative(const Term& x, const Term& y) -> Term.
template <auto kFunction, auto kDerivative>
OpDef Unary(std::string name, std::string doc, std::string scalar_op = "",
            ShardingFn sharding = ElementwiseRules) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = std::move(scalar_op),
          .infer = InferLikeInput,
          .reference = MapFloats<kFunction>,
          .gradient = Gradient<kDerivative>,
          .sharding = sharding};
}

Term SquareRoot(const Term& x) { return Apply("Sqrt", {x}); }

}  // namespace

// --- Exponentials ------------------------------------------------------------------------------

OpDef ExpOp() {
  return Unary<[](double x) { return std::exp(x); }, [](const Term&, const Term& y) { return y; }>(
      "Exp", "e to the power X", "exp", MonotoneRules);
}

// Monotone like Sqrt, Acosh, Asin and Atanh, but a partial maximum may lie where it is no number.
OpDef LogOp() {
  return Unary<[](double x) { return std::log(x); },
               [](const Term& x, const Term&) { return 1 / x; }>(
      "Log", "Natural logarithm; -inf at zero, NaN below", "log");
}

OpDef SqrtOp() {
  return Unary<[](double x) { return std::sqrt(x); },
               [](const Term&, const Term& y) { return 0.5 / y; }>(
      "Sqrt", "Square root; NaN below zero", "sqrt");
}

OpDef ReciprocalOp() {
  return Unary<[](double x) { return 1 / x; }, [](const Term&, const Term& y) { return -(y * y); }>(
      "Reciprocal", "1 / X", "reciprocal");
}

OpDef ErfOp() {
  return Unary<[](double x) { return std::erf(x); },
               [](const Term& x, const Term&) {
                 return 2 * std::numbers::inv_sqrtpi * Apply("Exp", {-(x * x)});
               }>("Erf", "Error function", "erf", MonotoneRules);
}

OpDef SigmoidOp() {
  return Unary<[](double x) { return 1 / (1 + std::exp(-x)); },
               [](const Term&, const Term& y) { return y * (1 - y); }>(
      "Sigmoid", "1 / (1 + exp(-X))", "sigmoid", MonotoneRules);
}

// --- Trigonometric functions -------------------------------------------------------------------

OpDef SinOp() {
  return Unary<[](double x) { return std::sin(x); },
               [](const Term& x, const Term&) { return Apply("Cos", {x}); }>("Sin", "Sine", "sin");
}

OpDef CosOp() {
  return Unary<[](double x) { return std::cos(x); },
               [](const Term& x, const Term&) { return -Apply("Sin", {x}); }>("Cos", "Cosine",
                                                                              "cos");
}

OpDef TanOp() {
  return Unary<[](double x) { return std::tan(x); },
               [](const Term&, const Term& y) { return y * y + 1; }>("Tan", "Tangent");
}

OpDef AsinOp() {
  return Unary<[](double x) { return std::asin(x); },
               [](const Term& x, const Term&) { return 1 / SquareRoot(1 - x * x); }>(
      "Asin", "Inverse sine; NaN outside of [-1,1]");
}

OpDef AcosOp() {
  return Unary<[](double x) { return std::acos(x); },
               [](const Term& x, const Term&) { return -1 / SquareRoot(1 - x * x); }>(
      "Acos", "Inverse cosine; NaN outside of [-1,1]");
}

OpDef AtanOp() {
  return Unary<[](double x) { return std::atan(x); },
               [](const Term& x, const Term&) { return 1 / (x * x + 1); }>(
      "Atan", "Inverse tangent", "", MonotoneRules);
}

// --- Hyperbolic functions ----------------------------------------------------------------------

OpDef SinhOp() {
  return Unary<[](double x) { return std::sinh(x); },
               [](const Term& x, const Term&) { return Apply("Cosh", {x}); }>(
      "Sinh", "Hyperbolic sine", "", MonotoneRules);
}

OpDef CoshOp() {
  return Unary<[](double x) { return std::cosh(x); },
               [](const Term& x, const Term&) { return Apply("Sinh", {x}); }>("Cosh",
                                                                              "Hyperbolic cosine");
}

OpDef TanhOp() {
  return Unary<[](double x) { return std::tanh(x); },
               [](const Term&, const Term& y) { return 1 - y * y; }>("Tanh", "Hyperbolic tangent",
                                                                     "tanh", MonotoneRules);
}

OpDef AsinhOp() {
  return Unary<[](double x) { return std::asinh(x); },
               [](const Term& x, const Term&) { return 1 / SquareRoot(x * x + 1); }>(
      "Asinh", "Inverse hyperbolic sine", "", MonotoneRules);
}

OpDef AcoshOp() {
  return Unary<[](double x) { return std::acosh(x); },
               [](const Term& x, const Term&) { return 1 / SquareRoot(x * x - 1); }>(
      "Acosh", "Inverse hyperbolic cosine; NaN below 1");
}

OpDef AtanhOp() {
  return Unary<[](double x) { return std::atanh(x); },
               [](const Term& x, const Term&) { return 1 / (1 - x * x); }>(
      "Atanh", "Inverse hyperbolic tangent; NaN outside of [-1,1]");
}

}  // namespace millrace
