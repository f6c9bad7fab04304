// Activation functions of one float, with constants as attributes. (Relu, Gelu and PRelu have files
// of their own; Sigmoid and Tanh are among unary_math.cc.)
//
// Each is a function of the attributes that gives a function of x, and the derivative as a formula
// in x and y = f(x). At a kink the derivative is that of the side ONNX counts the point to. (g++ 12
// takes a `>` in a lambda that is a template argument for the end of the list: all say `<`.)
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

template <auto kFunctionOf>
absl::Status Reference(const ReferenceContext& c) {
  const auto function = kFunctionOf(c.attrs);
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapDoubles<T, T>(c.inputs[0], c.outputs[0], function);
    return absl::OkStatus();
  });
}

template <auto kDerivative>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  f.set_grad(0, f.output_grad(0) * kDerivative(f.attrs(), f.input(0), f.output(0)));
  return absl::OkStatus();
}

// kFunctionOf(const Attrs&) -> (double -> double); kDerivative(attrs, x, y) -> Term.
template <auto kFunctionOf, auto kDerivative>
OpDef Activation(std::string name, std::string doc, std::vector<AttrSpec> attrs = {}) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = std::move(attrs),
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .infer = InferLikeInput,
          .reference = Reference<kFunctionOf>,
          .gradient = Gradient<kDerivative>,
          .sharding = ElementwiseRules};
}

AttrSpec Constant(std::string name, double value) {
  return {.name = std::move(name), .kind = AttrKind::kFloat, .default_value = value};
}

double Alpha(const Attrs& attrs) { return attrs.Float("alpha", 0); }

Term Exp(const Term& x) { return Apply("Exp", {x}); }
Term Sigmoid(const Term& x) { return Apply("Sigmoid", {x}); }

// The slope of a function that is straight on both sides of a point: `above` where the condition
// holds.
Term Slope(const Term& condition, const Term& like, double above, double below) {
  return Select(condition, Scalar(like, above), Scalar(like, below));
}

double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

OpDef EluOp() {
  return Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x < 0 ? alpha * std::expm1(x) : x; };
  },
                    [](const Attrs& attrs, const Term& x, const Term& y) {
                      return Select(x < 0, y + Alpha(attrs), Scalar(x, 1));
                    }>("Elu", "alpha * (exp(X) - 1) below zero, X above", {Constant("alpha", 1)});
}

OpDef CeluOp() {
  OpDef op = Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) {
      return std::max(x, 0.0) + std::min(0.0, alpha * std::expm1(x / alpha));
    };
  },
                        [](const Attrs& attrs, const Term& x, const Term&) {
                          return Select(x < 0, Exp(x / Alpha(attrs)), Scalar(x, 1));
                        }>("Celu", "alpha * (exp(X / alpha) - 1) below zero, X above",
                           {Constant("alpha", 1)});
  op.tier = 2;
  return op;
}

OpDef SeluOp() {
  OpDef op = Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs), gamma = attrs.Float("gamma", 0)](double x) {
      return gamma * (0 < x ? x : alpha * std::expm1(x));
    };
  },
                        [](const Attrs& attrs, const Term& x, const Term& y) {
                          const double gamma = attrs.Float("gamma", 0);
                          return Select(0 < x, Scalar(x, gamma), y + gamma * Alpha(attrs));
                        }>(
      "Selu", "gamma * alpha * (exp(X) - 1) up to zero, gamma * X above",
      {Constant("alpha", 1.67326319217681884765625), Constant("gamma", 1.05070102214813232421875)});
  op.tier = 2;
  return op;
}

OpDef LeakyReluOp() {
  return Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x < 0 ? alpha * x : x; };
  },
                    [](const Attrs& attrs, const Term& x, const Term&) {
                      return Slope(x < 0, x, Alpha(attrs), 1);
                    }>("LeakyRelu", "alpha * X below zero, X above", {Constant("alpha", 0.01)});
}

OpDef ThresholdedReluOp() {
  OpDef op = Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return alpha < x ? x : 0.0; };
  },
                        [](const Attrs& attrs, const Term& x, const Term&) {
                          return Slope(Alpha(attrs) < x, x, 1, 0);
                        }>("ThresholdedRelu", "X above alpha, else 0", {Constant("alpha", 1)});
  op.tier = 2;
  return op;
}

OpDef ShrinkOp() {
  OpDef op = Activation<[](const Attrs& attrs) {
    return [bias = attrs.Float("bias", 0), lambd = attrs.Float("lambd", 0)](double x) {
      return x < -lambd ? x + bias : lambd < x ? x - bias : 0.0;
    };
  },
                        [](const Attrs& attrs, const Term& x, const Term&) {
                          const double lambd = attrs.Float("lambd", 0);
                          return Select(x < -lambd, Scalar(x, 1), Slope(lambd < x, x, 1, 0));
                        }>("Shrink", "X + bias below -lambd, X - bias above lambd, else 0",
                           {Constant("bias", 0), Constant("lambd", 0.5)});
  op.inputs[0].dtypes = NumericTypes();
  op.tier = 2;
  return op;
}

OpDef HardSigmoidOp() {
  return Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs), beta = attrs.Float("beta", 0)](double x) {
      return std::isnan(x) ? x : std::max(0.0, std::min(1.0, alpha * x + beta));
    };
  },
                    [](const Attrs& attrs, const Term& x, const Term& y) {
                      const Term inside = Slope(y < 1, x, Alpha(attrs), 0);
                      return Select(0 < y, inside, Scalar(x, 0));
                    }>("HardSigmoid", "alpha * X + beta, between 0 and 1",
                       {Constant("alpha", 0.2), Constant("beta", 0.5)});
}

OpDef HardSwishOp() {
  return Activation<[](const Attrs&) {
    return [](double x) { return x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); };
  },
                    [](const Attrs&, const Term& x, const Term&) {
                      const Term inside = Select(x < 3, x / 3 + 0.5, Scalar(x, 1));
                      return Select(-3 < x, inside, Scalar(x, 0));
                    }>("HardSwish", "X * max(0, min(1, X / 6 + 1 / 2))");
}

OpDef SoftplusOp() {
  OpDef op = Activation<[](const Attrs&) { return Softplus; },
                        [](const Attrs&, const Term& x, const Term&) { return Sigmoid(x); }>(
      "Softplus", "log(1 + exp(X))");
  op.sharding = MonotoneRules;
  return op;
}

OpDef SoftsignOp() {
  OpDef op = Activation<[](const Attrs&) {
    return [](double x) { return std::isinf(x) ? std::copysign(1.0, x) : x / (1 + std::abs(x)); };
  },
                        [](const Attrs&, const Term& x, const Term&) {
                          const Term t = 1 / (Apply("Abs", {x}) + 1);
                          return t * t;
                        }>("Softsign", "X / (1 + |X|)");
  op.sharding = MonotoneRules;
  op.tier = 2;
  return op;
}

OpDef MishOp() {
  OpDef op =
      Activation<[](const Attrs&) { return [](double x) { return x * std::tanh(Softplus(x)); }; },
                 [](const Attrs&, const Term& x, const Term&) {
                   const Term t = Apply("Tanh", {Apply("Softplus", {x})});
                   return t + x * Sigmoid(x) * (1 - t * t);
                 }>("Mish", "X * tanh(log(1 + exp(X)))");
  op.tier = 2;
  return op;
}

OpDef SwishOp() {
  return Activation<[](const Attrs& attrs) {
    return [alpha = Alpha(attrs)](double x) { return x * Logistic(alpha * x); };
  },
                    [](const Attrs& attrs, const Term& x, const Term& y) {
                      const Term s = Sigmoid(Alpha(attrs) * x);
                      return s + Alpha(attrs) * y * (1 - s);
                    }>("Swish", "X * sigmoid(alpha * X)", {Constant("alpha", 1)});
}

}  // namespace millrace
