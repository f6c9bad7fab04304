// Activation functions of one float, with constants as attributes. (Relu, Gelu and PRelu have files
// of their own; Sigmoid and Tanh are among unary_math.cc.)
//
// Each is a struct: Of gives, for the attributes, the function of x; Formula the same for fused
// programs; Slope its derivative, as a formula in x and y = f(x). At a kink the derivative is that
// of the side ONNX counts the point to.
#include <algorithm>
#include <limits>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Alpha(const Attrs& attrs) { return attrs.Float("alpha", 0); }
double Beta(const Attrs& attrs) { return attrs.Float("beta", 0); }
double Gamma(const Attrs& attrs) { return attrs.Float("gamma", 0); }

// A derivative that is constant on both sides of a point.
Term Step(const Term& condition, const Term& like, double where_true, double where_false) {
  return Select(condition, Scalar(like, where_true), Scalar(like, where_false));
}

ScalarTerm Expm1(const ScalarTerm& x) { return ScalarUnary(ScalarOp::kExpm1, x); }
ScalarTerm Between01(const ScalarTerm& x) {
  return Between(x, ScalarConstant(x, 0), ScalarConstant(x, 1));
}

struct Elu {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x < 0 ? alpha * std::expm1(x) : x; };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term& y) {
    return Select(x < 0, y + Alpha(attrs), Scalar(x, 1));
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return Select(x[0] < 0, Alpha(attrs) * Expm1(x[0]), x[0]);
  }
};

struct Celu {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) {
      return std::max(x, 0.0) + std::min(0.0, alpha * std::expm1(x / alpha));
    };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term&) {
    return Select(x < 0, Apply("Exp", {x / Alpha(attrs)}), Scalar(x, 1));
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return Select(x[0] < 0, Alpha(attrs) * Expm1(1 / Alpha(attrs) * x[0]), x[0]);
  }
};

struct Selu {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs), gamma = Gamma(attrs)](double x) {
      return gamma * (x > 0 ? x : alpha * std::expm1(x));
    };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term& y) {
    return Select(0 < x, Scalar(x, Gamma(attrs)), y + Gamma(attrs) * Alpha(attrs));
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return Gamma(attrs) * Select(0 < x[0], x[0], Alpha(attrs) * Expm1(x[0]));
  }
};

struct LeakyRelu {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x < 0 ? alpha * x : x; };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term&) {
    return Step(x < 0, x, Alpha(attrs), 1);
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return Select(x[0] < 0, Alpha(attrs) * x[0], x[0]);
  }
};

struct ThresholdedRelu {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x > alpha ? x : 0.0; };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term&) {
    return Step(Alpha(attrs) < x, x, 1, 0);
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return Select(Alpha(attrs) < x[0], x[0], ScalarConstant(x[0], 0));
  }
};

struct Shrink {
  static auto Of(const Attrs& attrs) {
    return [bias = attrs.Float("bias", 0), lambd = attrs.Float("lambd", 0)](double x) {
      return x < -lambd ? x + bias : x > lambd ? x - bias : 0.0;
    };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term&) {
    const double lambd = attrs.Float("lambd", 0);
    return Select(x < -lambd, Scalar(x, 1), Step(lambd < x, x, 1, 0));
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    const double bias = attrs.Float("bias", 0), lambd = attrs.Float("lambd", 0);
    if (!IsFloat(x[0].dtype)) return {};  // integers are computed as floats
    return Select(x[0] < -lambd, x[0] + bias,
                  Select(lambd < x[0], x[0] - bias, ScalarConstant(x[0], 0)));
  }
};

struct HardSigmoid {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs), beta = Beta(attrs)](double x) {
      return std::isnan(x) ? x : std::clamp(alpha * x + beta, 0.0, 1.0);
    };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term& y) {
    return Select(0 < y, Step(y < 1, x, Alpha(attrs), 0), Scalar(x, 0));
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return Between01(
        Fma(ScalarConstant(x[0], Alpha(attrs)), x[0], ScalarConstant(x[0], Beta(attrs))));
  }
};

struct HardSwish {
  static auto Of(const Attrs&) {
    return [](double x) { return std::isnan(x) ? x : x * std::clamp(x / 6 + 0.5, 0.0, 1.0); };
  }
  static Term Slope(const Attrs&, const Term& x, const Term&) {
    return Select(-3 < x, Select(x < 3, x / 3 + 0.5, Scalar(x, 1)), Scalar(x, 0));
  }
  static ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
    return x[0] * Between01(Fma(ScalarConstant(x[0], 1.0 / 6), x[0], ScalarConstant(x[0], 0.5)));
  }
};

struct Softplus {
  static auto Of(const Attrs&) { return SoftplusOf; }
  static Term Slope(const Attrs&, const Term& x, const Term&) { return Apply("Sigmoid", {x}); }
  static ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
    return ScalarUnary(ScalarOp::kSoftplus, x[0]);
  }
};

struct Softsign {
  static auto Of(const Attrs&) {
    return [](double x) { return std::isinf(x) ? std::copysign(1.0, x) : x / (1 + std::abs(x)); };
  }
  static Term Slope(const Attrs&, const Term& x, const Term&) {
    const Term t = 1 / (Apply("Abs", {x}) + 1);
    return t * t;
  }
  static ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
    const ScalarTerm size = ScalarUnary(ScalarOp::kAbs, x[0]);
    const ScalarTerm infinite = ScalarConstant(x[0], kInfinity);
    const ScalarTerm limit = ScalarUnary(ScalarOp::kSign, x[0]);
    return Select(ScalarBinary(ScalarOp::kEqual, size, infinite), limit, x[0] / (size + 1));
  }
};

struct Mish {
  static auto Of(const Attrs&) {
    return [](double x) { return x * std::tanh(SoftplusOf(x)); };
  }
  static Term Slope(const Attrs&, const Term& x, const Term&) {
    const Term t = Apply("Tanh", {Apply("Softplus", {x})});
    return t + x * Apply("Sigmoid", {x}) * (1 - t * t);
  }
  static ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
    return x[0] * ScalarUnary(ScalarOp::kTanh, ScalarUnary(ScalarOp::kSoftplus, x[0]));
  }
};

struct Swish {
  static auto Of(const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x / (1 + std::exp(-alpha * x)); };
  }
  static Term Slope(const Attrs& attrs, const Term& x, const Term& y) {
    const Term s = Apply("Sigmoid", {Alpha(attrs) * x});
    return s + Alpha(attrs) * y * (1 - s);
  }
  static ScalarTerm Formula(const Attrs& attrs, std::span<const ScalarTerm> x) {
    return x[0] * ScalarUnary(ScalarOp::kSigmoid, Alpha(attrs) * x[0]);
  }
};

template <typename F>
absl::Status Reference(const ReferenceContext& c) {
  const auto function = F::Of(c.attrs);
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapDoubles<T, T>(c.inputs[0], c.outputs[0], function);
    return absl::OkStatus();
  });
}

template <typename F>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  f.set_grad(0, f.output_grad(0) * F::Slope(f.attrs(), f.input(0), f.output(0)));
  return absl::OkStatus();
}

template <typename F>
OpDef Activation(std::string name, std::string doc, std::vector<AttrSpec> attrs = {},
                 int tier = 1) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .tier = tier,
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = std::move(attrs),
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar = F::Formula,
          .infer = InferLikeInput,
          .reference = Reference<F>,
          .gradient = Gradient<F>,
          .sharding = ElementwiseRules};
}

AttrSpec Constant(std::string name, double value) {
  return {.name = std::move(name), .kind = AttrKind::kFloat, .default_value = value};
}

}  // namespace

OpDef EluOp() {
  return Activation<Elu>("Elu", "alpha * (exp(X) - 1) below zero, X above", {Constant("alpha", 1)});
}

OpDef CeluOp() {
  return Activation<Celu>("Celu", "alpha * (exp(X / alpha) - 1) below zero, X above",
                          {Constant("alpha", 1)}, 2);
}

OpDef SeluOp() {
  return Activation<Selu>(
      "Selu", "gamma * alpha * (exp(X) - 1) up to zero, gamma * X above",
      {Constant("alpha", 1.67326319217681884765625), Constant("gamma", 1.05070102214813232421875)},
      2);
}

OpDef LeakyReluOp() {
  return Activation<LeakyRelu>("LeakyRelu", "alpha * X below zero, X above",
                               {Constant("alpha", 0.01)});
}

OpDef ThresholdedReluOp() {
  return Activation<ThresholdedRelu>("ThresholdedRelu", "X above alpha, else 0",
                                     {Constant("alpha", 1)}, 2);
}

OpDef ShrinkOp() {
  OpDef op = Activation<Shrink>("Shrink", "X + bias below -lambd, X - bias above lambd, else 0",
                                {Constant("bias", 0), Constant("lambd", 0.5)}, 2);
  op.inputs[0].dtypes = NumericTypes();
  return op;
}

OpDef HardSigmoidOp() {
  return Activation<HardSigmoid>("HardSigmoid", "alpha * X + beta, between 0 and 1",
                                 {Constant("alpha", 0.2), Constant("beta", 0.5)});
}

OpDef HardSwishOp() {
  return Activation<HardSwish>("HardSwish", "X * max(0, min(1, X / 6 + 1 / 2))");
}

OpDef SoftplusOp() {
  OpDef op = Activation<Softplus>("Softplus", "log(1 + exp(X))");
  op.sharding = MonotoneRules;
  return op;
}

OpDef SoftsignOp() {
  OpDef op = Activation<Softsign>("Softsign", "X / (1 + |X|)", {}, 2);
  op.sharding = MonotoneRules;
  return op;
}

OpDef MishOp() { return Activation<Mish>("Mish", "X * tanh(log(1 + exp(X)))", {}, 2); }

OpDef SwishOp() {
  return Activation<Swish>("Swish", "X * sigmoid(alpha * X)", {Constant("alpha", 1)});
}

}  // namespace millrace
