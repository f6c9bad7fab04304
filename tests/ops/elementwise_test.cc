// Elementwise ops and reductions against values worked out by hand: the corners ONNX defines (NaN,
// infinities, negative zero, integers that wrap around, nothing to reduce).
#include <cmath>
#include <limits>

#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::Eval;
using optest::F32;
using optest::I64;
using optest::Is;
using optest::IsNear;
using optest::MakeAttrs;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor Bools(std::initializer_list<bool> values) {
  return Tensor::Of<bool>({static_cast<int64_t>(values.size())}, values);
}
template <typename T>
Tensor List(std::initializer_list<T> values) {
  return Tensor::Of<T>({static_cast<int64_t>(values.size())}, values);
}

// --- Functions of one operand ------------------------------------------------------------------

TEST(Elementwise, FunctionsAtKnownPoints) {
  const auto at = [](std::string_view op, double x) {
    return Eval(op, {Tensor::Scalar<double>(x)}).AsDouble(0);
  };
  EXPECT_NEAR(at("Log", 2), 0.6931471805599453, 1e-15);
  EXPECT_EQ(at("Log", 0), -INFINITY);
  EXPECT_TRUE(std::isnan(at("Log", -1)));
  EXPECT_EQ(at("Reciprocal", -0.0), -INFINITY);
  EXPECT_NEAR(at("Sin", 1), 0.8414709848078965, 1e-15);
  EXPECT_NEAR(at("Cos", 1), 0.5403023058681398, 1e-15);
  EXPECT_NEAR(at("Tan", 1), 1.5574077246549023, 1e-15);
  EXPECT_NEAR(at("Asin", 0.5), 0.5235987755982989, 1e-15);
  EXPECT_NEAR(at("Acos", 0.5), 1.0471975511965979, 1e-15);
  EXPECT_NEAR(at("Atan", 1), 0.7853981633974483, 1e-15);
  EXPECT_NEAR(at("Sinh", 1), 1.1752011936438014, 1e-15);
  EXPECT_NEAR(at("Cosh", 1), 1.5430806348152437, 1e-15);
  EXPECT_NEAR(at("Asinh", 1), 0.881373587019543, 1e-15);
  EXPECT_NEAR(at("Acosh", 2), 1.3169578969248166, 1e-15);
  EXPECT_NEAR(at("Atanh", 0.5), 0.5493061443340549, 1e-15);
}

TEST(Elementwise, RoundingGoesToTheEvenOfTwo) {
  const Tensor x = F32({9}, {-2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 0.4f, kInf, kNaN});
  EXPECT_THAT(Eval("Round", {x}), Is(F32({9}, {-2, -2, -0.0f, 0, 2, 2, 0, kInf, kNaN})));
  EXPECT_THAT(Eval("Ceil", {x}), Is(F32({9}, {-2, -1, -0.0f, 1, 2, 3, 1, kInf, kNaN})));
  EXPECT_THAT(Eval("Floor", {x}), Is(F32({9}, {-3, -2, -1, 0, 1, 2, 0, kInf, kNaN})));
}

TEST(Elementwise, SignsAndMagnitudes) {
  EXPECT_THAT(Eval("Abs", {F32({4}, {-1.5f, -0.0f, kNaN, -kInf})}),
              Is(F32({4}, {1.5f, 0, kNaN, kInf})));
  EXPECT_THAT(Eval("Abs", {List<int8_t>({-128, -5, 5})}), Is(List<int8_t>({-128, 5, 5})));
  EXPECT_THAT(Eval("Abs", {List<uint64_t>({UINT64_MAX})}), Is(List<uint64_t>({UINT64_MAX})));
  EXPECT_THAT(Eval("Sign", {F32({5}, {-3, 0, -0.0f, kInf, kNaN})}),
              Is(F32({5}, {-1, 0, 0, 1, kNaN})));
  EXPECT_THAT(Eval("Sign", {I64({3}, {INT64_MIN, 0, 7})}), Is(I64({3}, {-1, 0, 1})));
  EXPECT_THAT(Eval("Sign", {List<uint8_t>({0, 200})}), Is(List<uint8_t>({0, 1})));
}

TEST(Elementwise, TestsForNaNAndInfinity) {
  const Tensor x = F32({4}, {kNaN, kInf, -kInf, 1});
  EXPECT_THAT(Eval("IsNaN", {x}), Is(Bools({true, false, false, false})));
  EXPECT_THAT(Eval("IsInf", {x}), Is(Bools({false, true, true, false})));
  EXPECT_THAT(Eval("IsInf", {x}, MakeAttrs({{"detect_positive", false}})),
              Is(Bools({false, false, true, false})));
  EXPECT_THAT(Eval("IsInf", {x}, MakeAttrs({{"detect_negative", false}})),
              Is(Bools({false, true, false, false})));
}

struct ActivationCase {
  std::string_view op;
  Attrs attrs;
  std::initializer_list<double> expected;  // at -4, -0.5, 0, 0.5, 4
};

TEST(Elementwise, Activations) {
  const ActivationCase kCases[] = {
      {"Elu", MakeAttrs({{"alpha", 2.0}}), {-1.9633687222225316, -0.7869386805747332, 0, 0.5, 4}},
      {"Celu", MakeAttrs({{"alpha", 2.0}}), {-1.7293294335267746, -0.44239843385719024, 0, 0.5, 4}},
      {"Selu",
       MakeAttrs({{"alpha", 2.0}, {"gamma", 3.0}}),
       {-5.890106166667595, -2.3608160417241996, 0, 1.5, 12}},
      {"LeakyRelu", MakeAttrs({{"alpha", 0.25}}), {-1, -0.125, 0, 0.5, 4}},
      {"ThresholdedRelu", MakeAttrs({{"alpha", 0.5}}), {0, 0, 0, 0, 4}},
      {"Shrink", MakeAttrs({{"bias", 1.5}, {"lambd", 1.0}}), {-2.5, 0, 0, 0, 2.5}},
      {"HardSigmoid", {}, {0, 0.4, 0.5, 0.6, 1}},
      {"HardSwish", {}, {0, -0.20833333333333334, 0, 0.2916666666666667, 4}},
      {"Softplus",
       {},
       {0.01814992791780978, 0.4740769841801067, 0.6931471805599453, 0.9740769841801067,
        4.01814992791781}},
      {"Softsign", {}, {-0.8, -1.0 / 3, 0, 1.0 / 3, 0.8}},
      {"Mish",
       {},
       {-0.07259174079202535, -0.22074377465173, 0, 0.3752452113048951, 3.9974128069762385}},
      {"Swish",
       {},
       {-0.07194483984836622, -0.1887703343990727, 0, 0.3112296656009273, 3.928055160151634}},
  };
  const Tensor x = Tensor::Of<double>({5}, {-4, -0.5, 0, 0.5, 4});
  for (const ActivationCase& c : kCases) {
    SCOPED_TRACE(c.op);
    EXPECT_THAT(Eval(c.op, {x}, c.attrs), IsNear(Tensor::Of<double>({5}, c.expected), 1e-6));
  }
}

TEST(Elementwise, ActivationsOfExtremes) {
  const Tensor x = F32({3}, {-1000, 1000, kNaN});
  EXPECT_THAT(Eval("Softplus", {x}), IsNear(F32({3}, {0, 1000, kNaN}), 0.0));
  EXPECT_THAT(Eval("Elu", {x}), IsNear(F32({3}, {-1, 1000, kNaN}), 0.0));
  EXPECT_THAT(Eval("HardSigmoid", {x}), IsNear(F32({3}, {0, 1, kNaN}), 0.0));
  EXPECT_THAT(Eval("Softsign", {F32({2}, {kInf, -kInf})}), Is(F32({2}, {1, -1})));
  EXPECT_THAT(Eval("Mish", {x}), IsNear(F32({3}, {0, 1000, kNaN}), 0.0));
}

// --- Comparisons and logic ---------------------------------------------------------------------

TEST(Elementwise, ComparisonsWithNaNAreFalse) {
  const Tensor a = F32({4}, {1, 2, kNaN, -0.0f}), b = F32({4}, {2, 2, kNaN, 0});
  EXPECT_THAT(Eval("Equal", {a, b}), Is(Bools({false, true, false, true})));
  EXPECT_THAT(Eval("Less", {a, b}), Is(Bools({true, false, false, false})));
  EXPECT_THAT(Eval("LessOrEqual", {a, b}), Is(Bools({true, true, false, true})));
  EXPECT_THAT(Eval("Greater", {a, b}), Is(Bools({false, false, false, false})));
  EXPECT_THAT(Eval("GreaterOrEqual", {a, b}), Is(Bools({false, true, false, true})));
}

TEST(Elementwise, ComparisonsOfIntegersHaveSignsAndAllBits) {
  EXPECT_THAT(Eval("Less", {I64({2}, {-1, INT64_MAX - 1}), I64({2}, {1, INT64_MAX})}),
              Is(Bools({true, true})));
  EXPECT_THAT(Eval("Less", {List<uint64_t>({UINT64_MAX}), List<uint64_t>({1})}),
              Is(Bools({false})));
  EXPECT_THAT(Eval("Equal", {Bools({true, false}), Bools({true, true})}), Is(Bools({true, false})));
}

TEST(Elementwise, Logic) {
  const Tensor a = Tensor::Of<bool>({2, 1}, {false, true}), b = Bools({false, true});
  EXPECT_THAT(Eval("And", {a, b}), Is(Tensor::Of<bool>({2, 2}, {false, false, false, true})));
  EXPECT_THAT(Eval("Or", {a, b}), Is(Tensor::Of<bool>({2, 2}, {false, true, true, true})));
  EXPECT_THAT(Eval("Xor", {a, b}), Is(Tensor::Of<bool>({2, 2}, {false, true, true, false})));
  EXPECT_THAT(Eval("Not", {b}), Is(Bools({true, false})));
}

TEST(Elementwise, Bits) {
  const Tensor a = List<int16_t>({0x0ff0, -1}), b = List<int16_t>({0x3c3c, 0x0f0f});
  EXPECT_THAT(Eval("BitwiseAnd", {a, b}), Is(List<int16_t>({0x0c30, 0x0f0f})));
  EXPECT_THAT(Eval("BitwiseOr", {a, b}), Is(List<int16_t>({0x3ffc, -1})));
  EXPECT_THAT(Eval("BitwiseXor", {a, b}), Is(List<int16_t>({0x33cc, ~0x0f0f})));
  EXPECT_THAT(Eval("BitwiseNot", {b}), Is(List<int16_t>({~0x3c3c, ~0x0f0f})));
  const Tensor x = List<uint8_t>({0x81, 0x81, 0x81}), by = List<uint8_t>({1, 7, 8});
  EXPECT_THAT(Eval("BitShift", {x, by}, MakeAttrs({{"direction", "LEFT"}})),
              Is(List<uint8_t>({0x02, 0x80, 0})));
  EXPECT_THAT(Eval("BitShift", {x, by}, MakeAttrs({{"direction", "RIGHT"}})),
              Is(List<uint8_t>({0x40, 1, 0})));
  EXPECT_THAT(Eval("BitShift", {List<uint64_t>({1}), List<uint64_t>({UINT64_MAX})},
                   MakeAttrs({{"direction", "LEFT"}})),
              Is(List<uint64_t>({0})));
}

// --- Pow, Mod, and ops of many operands --------------------------------------------------------

TEST(Elementwise, PowersOfIntegersAreExactAndWrap) {
  EXPECT_THAT(Eval("Pow", {I64({3}, {3, -3, 2}), I64({3}, {39, 39, 64})}),
              Is(I64({3}, {4052555153018976267, -4052555153018976267, 0})));
  EXPECT_THAT(Eval("Pow", {I64({4}, {1, -1, 2, 0}), I64({4}, {-5, -5, -1, -1})}),
              Is(I64({4}, {1, -1, 0, 0})));
  EXPECT_THAT(Eval("Pow", {List<int32_t>({2, 3}), F32({2}, {0.5f, 2})}), Is(List<int32_t>({1, 9})));
  EXPECT_THAT(Eval("Pow", {List<int8_t>({-128}), List<uint64_t>({UINT64_MAX})}),
              Is(List<int8_t>({0})));
}

TEST(Elementwise, PowersOfFloats) {
  EXPECT_THAT(Eval("Pow", {F32({6}, {2, -2, -2, 0, 0, 4}), F32({6}, {3, 3, 0.5f, 0, -1, -0.5f})}),
              IsNear(F32({6}, {8, -8, kNaN, 1, kInf, 0.5f}), 0.0));
  EXPECT_THAT(Eval("Pow", {F32({2}, {2, 3}), I64({}, {2})}), Is(F32({2}, {4, 9})));
}

TEST(Elementwise, RemaindersTakeTheSignOfOneOrTheOther) {
  const Attrs fmod = MakeAttrs({{"fmod", true}});
  const Tensor a = I64({6}, {-4, 7, 5, 4, -7, 8}), b = I64({6}, {2, -3, 8, -2, 3, 5});
  EXPECT_THAT(Eval("Mod", {a, b}), Is(I64({6}, {0, -2, 5, 0, 2, 3})));
  EXPECT_THAT(Eval("Mod", {a, b}, fmod), Is(I64({6}, {0, 1, 5, 0, -1, 3})));
  EXPECT_THAT(Eval("Mod", {I64({2}, {INT64_MIN, 7}), I64({2}, {-1, 0})}), Is(I64({2}, {0, 0})));
  EXPECT_THAT(Eval("Mod", {F32({3}, {-4.25f, 7, kInf}), F32({3}, {2, -3, 2})}, fmod),
              IsNear(F32({3}, {-0.25f, 1, kNaN}), 0.0));
  const auto refused = optest::RunReference("Mod", {}, {F32({1}, {1}), F32({1}, {1})});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("floats need 'fmod' to be 1"));
}

TEST(Elementwise, ExtremesOfManyOperands) {
  const Tensor a = F32({3}, {1, kNaN, -0.5f}), b = F32({2, 1}, {0, 2}), c = F32({}, {1.5f});
  EXPECT_THAT(Eval("Max", {a, b, c}), Is(F32({2, 3}, {1.5f, kNaN, 1.5f, 2, kNaN, 2})));
  EXPECT_THAT(Eval("Min", {a, b, c}), Is(F32({2, 3}, {0, kNaN, -0.5f, 1, kNaN, -0.5f})));
  EXPECT_THAT(Eval("Max", {List<int8_t>({-128, 5}), List<int8_t>({1, -7})}),
              Is(List<int8_t>({1, 5})));
  EXPECT_THAT(Eval("Max", {List<uint64_t>({UINT64_MAX}), List<uint64_t>({1})}),
              Is(List<uint64_t>({UINT64_MAX})));
  EXPECT_THAT(Eval("Min", {a}), Is(a));
}

TEST(Elementwise, SumsAndMeansOfManyOperands) {
  const Tensor a = F32({2}, {1, 2}), b = F32({2, 1}, {10, 20}), c = F32({}, {3});
  EXPECT_THAT(Eval("Sum", {a, b, c}), Is(F32({2, 2}, {14, 15, 24, 25})));
  EXPECT_THAT(Eval("Mean", {a, b, c}), Is(F32({2, 2}, {14.0f / 3, 5, 8, 25.0f / 3})));
  EXPECT_THAT(Eval("Mean", {a}), Is(a));
}

TEST(Elementwise, ClipLetsMaxWin) {
  const Tensor x = F32({4}, {-3, 0.5f, 3, kNaN});
  EXPECT_THAT(Eval("Clip", {x, F32({}, {-1}), F32({}, {1})}), Is(F32({4}, {-1, 0.5f, 1, kNaN})));
  EXPECT_THAT(Eval("Clip", {x, F32({}, {2}), F32({}, {-2})}), Is(F32({4}, {-2, -2, -2, kNaN})));
  EXPECT_THAT(Eval("Clip", {x, Tensor(), F32({}, {1})}), Is(F32({4}, {-3, 0.5f, 1, kNaN})));
  EXPECT_THAT(Eval("Clip", {x}), Is(x));
  EXPECT_THAT(Eval("Clip", {List<uint8_t>({0, 255}), Tensor::Scalar<uint8_t>(3)}),
              Is(List<uint8_t>({3, 255})));
}

TEST(Elementwise, PReluBroadcastsItsSlope) {
  EXPECT_THAT(Eval("PRelu", {F32({2, 2}, {-1, 2, -3, -4}), F32({2}, {0.5f, 10})}),
              Is(F32({2, 2}, {-0.5f, 2, -1.5f, -40})));
  const auto refused = optest::RunReference("PRelu", {}, {F32({1}, {1}), F32({2}, {1, 2})});
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("'slope' of [2] does not broadcast to X, [1]"));
}

TEST(Elementwise, CastLikeTakesTheOthersType) {
  EXPECT_THAT(Eval("CastLike", {F32({2}, {1.5f, -300}), List<int8_t>({1, 2, 3})}),
              Is(List<int8_t>({1, -128})));
}

// --- Reductions --------------------------------------------------------------------------------

TEST(Reductions, OfARow) {
  const Tensor x = F32({2, 3}, {1, -2, 3, 4, 5, -6});
  const Attrs rows = MakeAttrs({{"axes", Ints{1}}, {"keepdims", false}});
  EXPECT_THAT(Eval("ReduceMax", {x}, rows), Is(F32({2}, {3, 5})));
  EXPECT_THAT(Eval("ReduceMin", {x}, rows), Is(F32({2}, {-2, -6})));
  EXPECT_THAT(Eval("ReduceProd", {x}, rows), Is(F32({2}, {-6, -120})));
  EXPECT_THAT(Eval("ReduceL1", {x}, rows), Is(F32({2}, {6, 15})));
  EXPECT_THAT(Eval("ReduceSumSquare", {x}, rows), Is(F32({2}, {14, 77})));
  EXPECT_THAT(Eval("ReduceL2", {x}, rows), Is(F32({2}, {std::sqrt(14.0f), std::sqrt(77.0f)})));
  EXPECT_THAT(Eval("ReduceLogSum", {x}, rows), IsNear(F32({2}, {0.6931472f, 1.0986123f}), 1e-7));
  EXPECT_THAT(Eval("ReduceLogSumExp", {x}, rows), IsNear(F32({2}, {3.1328450f, 5.3132739f}), 1e-6));
}

TEST(Reductions, OfNothing) {
  const Attrs rows = MakeAttrs({{"axes", Ints{1}}, {"keepdims", false}});
  const Tensor x = F32({1, 0}, {});
  for (std::string_view op : {"ReduceL1", "ReduceL2", "ReduceSumSquare"}) {
    EXPECT_THAT(Eval(op, {x}, rows), Is(F32({1}, {0}))) << op;
  }
  EXPECT_THAT(Eval("ReduceProd", {x}, rows), Is(F32({1}, {1})));
  EXPECT_THAT(Eval("ReduceMax", {x}, rows), Is(F32({1}, {-kInf})));
  EXPECT_THAT(Eval("ReduceMin", {x}, rows), Is(F32({1}, {kInf})));
  EXPECT_THAT(Eval("ReduceLogSum", {x}, rows), Is(F32({1}, {-kInf})));
  EXPECT_THAT(Eval("ReduceLogSumExp", {x}, rows), Is(F32({1}, {-kInf})));
  EXPECT_THAT(Eval("ReduceMax", {Tensor::Of<int8_t>({1, 0}, {})}, rows), Is(List<int8_t>({-128})));
  EXPECT_TRUE(std::isnan(Eval("ReduceMean", {x}, rows).AsDouble(0)));
}

TEST(Reductions, NaNIsNeverPassedOver) {
  for (std::string_view op : {"ReduceMax", "ReduceMin", "ReduceLogSumExp", "ReduceL1"}) {
    EXPECT_TRUE(std::isnan(Eval(op, {F32({3}, {1, kNaN, 2})}).AsDouble(0))) << op;
  }
}

TEST(Reductions, LogSumExpDoesNotOverflow) {
  EXPECT_THAT(Eval("ReduceLogSumExp", {F32({2}, {1000, 1000})}),
              IsNear(F32({1}, {1000.6931472f}), 1e-7));
  EXPECT_THAT(Eval("ReduceLogSumExp", {F32({2}, {-kInf, kInf})}), Is(F32({1}, {kInf})));
}

TEST(Reductions, OfIntegersWrapAndTruncate) {
  EXPECT_THAT(Eval("ReduceProd", {List<int8_t>({100, 3})}), Is(List<int8_t>({44})));
  EXPECT_THAT(Eval("ReduceL1", {List<int8_t>({-100, 20})}), Is(List<int8_t>({120})));
  EXPECT_THAT(Eval("ReduceSumSquare", {List<uint8_t>({20, 1})}), Is(List<uint8_t>({145})));
  EXPECT_THAT(Eval("ReduceL2", {List<int32_t>({3, 5})}), Is(List<int32_t>({5})));
  EXPECT_THAT(Eval("ReduceMean", {List<int32_t>({-3, -4})}), Is(List<int32_t>({-3})));
  EXPECT_THAT(Eval("ReduceMin", {I64({2}, {INT64_MIN, 0})}), Is(I64({1}, {INT64_MIN})));
}

TEST(Reductions, ArgMinPicksTheFirstOrTheLast) {
  const Tensor x = F32({2, 3}, {3, 1, 1, 5, kNaN, 2});
  const Attrs rows = MakeAttrs({{"axis", int64_t{1}}, {"keepdims", false}});
  EXPECT_THAT(Eval("ArgMin", {x}, rows), Is(I64({2}, {1, 1})));
  Attrs last = rows;
  last.Set("select_last_index", true);
  EXPECT_THAT(Eval("ArgMin", {x}, last), Is(I64({2}, {2, 1})));
}

TEST(Reductions, LogSoftmaxIsStable) {
  EXPECT_THAT(Eval("LogSoftmax", {F32({2, 2}, {0, 0, 10000, 0})}),
              IsNear(F32({2, 2}, {-0.6931472f, -0.6931472f, 0, -10000}), 1e-7));
}

TEST(Reductions, HardmaxMarksTheFirstLargest) {
  EXPECT_THAT(Eval("Hardmax", {F32({2, 3}, {1, 3, 3, 2, 0, 1})}),
              Is(F32({2, 3}, {0, 1, 0, 1, 0, 0})));
}

TEST(Reductions, CumSumFromEitherEnd) {
  const Tensor x = F32({4}, {1, 2, 3, 4}), axis = Tensor::Scalar<int32_t>(0);
  EXPECT_THAT(Eval("CumSum", {x, axis}), Is(F32({4}, {1, 3, 6, 10})));
  EXPECT_THAT(Eval("CumSum", {x, axis}, MakeAttrs({{"exclusive", true}})),
              Is(F32({4}, {0, 1, 3, 6})));
  EXPECT_THAT(Eval("CumSum", {x, axis}, MakeAttrs({{"reverse", true}})),
              Is(F32({4}, {10, 9, 7, 4})));
  EXPECT_THAT(Eval("CumSum", {x, axis}, MakeAttrs({{"reverse", true}, {"exclusive", true}})),
              Is(F32({4}, {9, 7, 4, 0})));
  EXPECT_THAT(Eval("CumSum", {I64({2, 2}, {1, 2, 3, 4}), I64({1}, {-2})}),
              Is(I64({2, 2}, {1, 2, 4, 6})));
}

TEST(Elementwise, GeluOfMinusInfinityIsItsLimit) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* approximate : {"none", "tanh"}) {
    EXPECT_THAT(
        Eval("Gelu", {F32({2}, {-infinity, infinity})}, MakeAttrs({{"approximate", approximate}})),
        Is(F32({2}, {-0.0f, infinity})));
  }
}

}  // namespace
}  // namespace millrace
