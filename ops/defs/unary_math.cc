// Functions of one float. Each is a struct: Of is the function, Slope its derivative, as a formula
// in x and y = f(x).
#include <numbers>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

Term SquareRoot(const Term& x) { return Apply("Sqrt", {x}); }

// --- Exponentials ------------------------------------------------------------------------------

struct Exp {
  static double Of(double x) { return std::exp(x); }
  static Term Slope(const Term&, const Term& y) { return y; }
};
struct Log {
  static double Of(double x) { return std::log(x); }
  static Term Slope(const Term& x, const Term&) { return 1 / x; }
};
struct Sqrt {
  static double Of(double x) { return std::sqrt(x); }
  static Term Slope(const Term&, const Term& y) { return 0.5 / y; }
};
struct Reciprocal {
  static double Of(double x) { return 1 / x; }
  static Term Slope(const Term&, const Term& y) { return -(y * y); }
};
struct Erf {
  static double Of(double x) { return std::erf(x); }
  static Term Slope(const Term& x, const Term&) {
    return 2 * std::numbers::inv_sqrtpi * Apply("Exp", {-(x * x)});
  }
};
struct Sigmoid {
  static double Of(double x) { return 1 / (1 + std::exp(-x)); }
  static Term Slope(const Term&, const Term& y) { return y * (1 - y); }
};

// --- Trigonometric functions -------------------------------------------------------------------

struct Sin {
  static double Of(double x) { return std::sin(x); }
  static Term Slope(const Term& x, const Term&) { return Apply("Cos", {x}); }
};
struct Cos {
  static double Of(double x) { return std::cos(x); }
  static Term Slope(const Term& x, const Term&) { return -Apply("Sin", {x}); }
};
struct Tan {
  static double Of(double x) { return std::tan(x); }
  static Term Slope(const Term&, const Term& y) { return y * y + 1; }
};
struct Asin {
  static double Of(double x) { return std::asin(x); }
  static Term Slope(const Term& x, const Term&) { return 1 / SquareRoot(1 - x * x); }
};
struct Acos {
  static double Of(double x) { return std::acos(x); }
  static Term Slope(const Term& x, const Term&) { return -1 / SquareRoot(1 - x * x); }
};
struct Atan {
  static double Of(double x) { return std::atan(x); }
  static Term Slope(const Term& x, const Term&) { return 1 / (x * x + 1); }
};

// --- Hyperbolic functions ----------------------------------------------------------------------

struct Sinh {
  static double Of(double x) { return std::sinh(x); }
  static Term Slope(const Term& x, const Term&) { return Apply("Cosh", {x}); }
};
struct Cosh {
  static double Of(double x) { return std::cosh(x); }
  static Term Slope(const Term& x, const Term&) { return Apply("Sinh", {x}); }
};
struct Tanh {
  static double Of(double x) { return std::tanh(x); }
  static Term Slope(const Term&, const Term& y) { return 1 - y * y; }
};
struct Asinh {
  static double Of(double x) { return std::asinh(x); }
  static Term Slope(const Term& x, const Term&) { return 1 / SquareRoot(x * x + 1); }
};
struct Acosh {
  static double Of(double x) { return std::acosh(x); }
  static Term Slope(const Term& x, const Term&) { return 1 / SquareRoot(x * x - 1); }
};
struct Atanh {
  static double Of(double x) { return std::atanh(x); }
  static Term Slope(const Term& x, const Term&) { return 1 / (1 - x * x); }
};

// --- Definitions -------------------------------------------------------------------------------

template <typename F>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, f.output_grad(0) * F::Slope(f.input(0), f.output(0)));
  return absl::OkStatus();
}

template <typename F>
OpDef Unary(std::string name, std::string doc, std::string scalar_op = "") {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = std::move(scalar_op),
          .infer = InferLikeInput,
          .reference = MapFloats<F::Of>,
          .gradient = Gradient<F>,
          .sharding = ElementwiseRules};
}

// Never decreasing, for all floats: Log, Sqrt, Acosh, Asin and Atanh are not among these, because a
// partial maximum may lie where they are no number.
template <typename F>
OpDef Monotone(std::string name, std::string doc, std::string scalar_op = "") {
  OpDef op = Unary<F>(std::move(name), std::move(doc), std::move(scalar_op));
  op.sharding = MonotoneRules;
  return op;
}

}  // namespace

OpDef ExpOp() { return Monotone<Exp>("Exp", "e to the power X", "exp"); }
OpDef LogOp() { return Unary<Log>("Log", "Natural logarithm; -inf at zero, NaN below", "log"); }
OpDef SqrtOp() { return Unary<Sqrt>("Sqrt", "Square root; NaN below zero", "sqrt"); }
OpDef ReciprocalOp() { return Unary<Reciprocal>("Reciprocal", "1 / X", "reciprocal"); }
OpDef ErfOp() { return Monotone<Erf>("Erf", "Error function", "erf"); }
OpDef SigmoidOp() { return Monotone<Sigmoid>("Sigmoid", "1 / (1 + exp(-X))", "sigmoid"); }

OpDef SinOp() { return Unary<Sin>("Sin", "Sine", "sin"); }
OpDef CosOp() { return Unary<Cos>("Cos", "Cosine", "cos"); }
OpDef TanOp() { return Unary<Tan>("Tan", "Tangent"); }
OpDef AsinOp() { return Unary<Asin>("Asin", "Inverse sine; NaN outside of [-1,1]"); }
OpDef AcosOp() { return Unary<Acos>("Acos", "Inverse cosine; NaN outside of [-1,1]"); }
OpDef AtanOp() { return Monotone<Atan>("Atan", "Inverse tangent"); }

OpDef SinhOp() { return Monotone<Sinh>("Sinh", "Hyperbolic sine"); }
OpDef CoshOp() { return Unary<Cosh>("Cosh", "Hyperbolic cosine"); }
OpDef TanhOp() { return Monotone<Tanh>("Tanh", "Hyperbolic tangent", "tanh"); }
OpDef AsinhOp() { return Monotone<Asinh>("Asinh", "Inverse hyperbolic sine"); }
OpDef AcoshOp() { return Unary<Acosh>("Acosh", "Inverse hyperbolic cosine; NaN below 1"); }
OpDef AtanhOp() {
  return Unary<Atanh>("Atanh", "Inverse hyperbolic tangent; NaN outside of [-1,1]");
}

}  // namespace millrace
