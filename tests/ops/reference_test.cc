// Reference kernels against values worked out by hand, and against independent computations that
// are written another way.
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "graph/strings.h"
#include "gtest/gtest.h"
#include "ops/op_def.h"
#include "ops/signature.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::Converted;
using optest::Eval;
using optest::F32;
using optest::I64;
using optest::Is;
using optest::MakeAttrs;
using optest::MaxError;
using optest::OpCase;
using optest::RandomTensor;
using optest::RunAll;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// --- Elementwise -------------------------------------------------------------------------------

TEST(Reference, ArithmeticBroadcasts) {
  const Tensor a = F32({2, 1}, {1, 2}), b = F32({3}, {10, 20, 30});
  EXPECT_THAT(Eval("Add", {a, b}), Is(F32({2, 3}, {11, 21, 31, 12, 22, 32})));
  EXPECT_THAT(Eval("Sub", {a, b}), Is(F32({2, 3}, {-9, -19, -29, -8, -18, -28})));
  EXPECT_THAT(Eval("Mul", {b, a}), Is(F32({2, 3}, {10, 20, 30, 20, 40, 60})));
  EXPECT_THAT(Eval("Greater", {b, F32({}, {20})}), Is(Tensor::Of<bool>({3}, {false, false, true})));
}

TEST(Reference, IntegersWrapAround) {
  EXPECT_THAT(Eval("Add", {Tensor::Scalar<int8_t>(127), Tensor::Scalar<int8_t>(1)}),
              Is(Tensor::Scalar<int8_t>(-128)));
  EXPECT_THAT(Eval("Mul", {Tensor::Scalar<uint16_t>(65535), Tensor::Scalar<uint16_t>(65535)}),
              Is(Tensor::Scalar<uint16_t>(1)));
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(Eval("Sub", {Tensor::Scalar<int64_t>(kLeast), Tensor::Scalar<int64_t>(1)}),
              Is(Tensor::Scalar<int64_t>(std::numeric_limits<int64_t>::max())));
  EXPECT_THAT(Eval("Neg", {Tensor::Scalar<int64_t>(kLeast)}), Is(Tensor::Scalar<int64_t>(kLeast)));
}

TEST(Reference, IntegerDivisionTruncatesAndIsTotal) {
  EXPECT_THAT(Eval("Div", {I64({4}, {7, -7, 7, -7}), I64({4}, {2, 2, -2, 0})}),
              Is(I64({4}, {3, -3, -3, 0})));
  EXPECT_THAT(Eval("Div", {Tensor::Scalar<int32_t>(INT32_MIN), Tensor::Scalar<int32_t>(-1)}),
              Is(Tensor::Scalar<int32_t>(INT32_MIN)));
  EXPECT_THAT(Eval("Div", {Tensor::Scalar<uint8_t>(255), Tensor::Scalar<uint8_t>(2)}),
              Is(Tensor::Scalar<uint8_t>(127)));
}

TEST(Reference, ReluKeepsNaN) {
  const float nan = std::nanf("");
  const Tensor y = Eval("Relu", {F32({3}, {-1, nan, 2})});
  EXPECT_EQ(y.AsDouble(0), 0);
  EXPECT_TRUE(std::isnan(y.AsDouble(1)));
  EXPECT_EQ(y.AsDouble(2), 2);
  EXPECT_THAT(Eval("Relu", {Tensor::Of<int8_t>({2}, {-128, 5})}),
              Is(Tensor::Of<int8_t>({2}, {0, 5})));
}

TEST(Reference, FunctionsAtKnownPoints) {
  const auto at = [](std::string_view op, double x, const Attrs& attrs = {}) {
    return Eval(op, {Tensor::Scalar<double>(x)}, attrs).AsDouble(0);
  };
  EXPECT_NEAR(at("Exp", 1), 2.718281828459045, 1e-15);
  EXPECT_NEAR(at("Tanh", 0.5), 0.46211715726000976, 1e-15);
  EXPECT_NEAR(at("Erf", 0.5), 0.5204998778130465, 1e-15);
  EXPECT_NEAR(at("Sqrt", 2), 1.4142135623730951, 1e-15);
  EXPECT_NEAR(at("Sigmoid", 1), 0.7310585786300049, 1e-15);
  EXPECT_EQ(at("Sigmoid", -1000), 0);
  EXPECT_NEAR(at("Gelu", 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(at("Gelu", 1, MakeAttrs({{"approximate", "tanh"}})), 0.8411919906082768, 1e-15);
  EXPECT_TRUE(std::isnan(at("Sqrt", -1)));
}

TEST(Reference, WherePicksAndBroadcasts) {
  EXPECT_THAT(
      Eval("Where", {Tensor::Of<bool>({2, 1}, {true, false}), F32({3}, {1, 2, 3}), F32({}, {9})}),
      Is(F32({2, 3}, {1, 2, 3, 9, 9, 9})));
}

TEST(Reference, CastRoundsSaturatesAndWraps) {
  const auto cast = [](const Tensor& x, std::string_view to) {
    return Eval("Cast", {x}, MakeAttrs({{"to", std::string(to)}}));
  };
  EXPECT_THAT(cast(F32({5}, {1.9f, -1.9f, 300, -300, NAN}), "i8"),
              Is(Tensor::Of<int8_t>({5}, {1, -1, 127, -128, 0})));
  EXPECT_THAT(cast(F32({2}, {-1, 1e30f}), "u64"), Is(Tensor::Of<uint64_t>({2}, {0, UINT64_MAX})));
  EXPECT_THAT(cast(I64({2}, {257, -1}), "u8"), Is(Tensor::Of<uint8_t>({2}, {1, 255})));
  EXPECT_THAT(cast(F32({3}, {0, 0.5f, NAN}), "bool"),
              Is(Tensor::Of<bool>({3}, {false, true, true})));
  EXPECT_THAT(cast(Tensor::Of<bool>({2}, {false, true}), "f32"), Is(F32({2}, {0, 1})));
}

// 1 + 2^-11 is a tie between the halves 1 and 1 + 2^-10. A bit more, far below f32's precision,
// must round up, which conversion through f32 would lose.
TEST(Reference, CastFromDoubleToHalfRoundsOnce) {
  const double tie = 1 + 0x1p-11;
  const Tensor x = Tensor::Of<double>({3}, {tie, tie + 0x1p-40, -tie - 0x1p-40});
  const Tensor y = Eval("Cast", {x}, MakeAttrs({{"to", "f16"}}));
  EXPECT_EQ(y.AsDouble(0), 1);
  EXPECT_EQ(y.AsDouble(1), 1 + 0x1p-10);
  EXPECT_EQ(y.AsDouble(2), -1 - 0x1p-10);
}

// --- Products ----------------------------------------------------------------------------------

TEST(Reference, MatMulByHand) {
  EXPECT_THAT(Eval("MatMul", {F32({2, 2}, {1, 2, 3, 4}), F32({2, 2}, {5, 6, 7, 8})}),
              Is(F32({2, 2}, {19, 22, 43, 50})));
  EXPECT_THAT(Eval("MatMul", {F32({2}, {1, 2}), F32({2}, {3, 4})}), Is(F32({}, {11})));
  EXPECT_THAT(Eval("MatMul", {F32({2, 0}, {}), F32({0, 1}, {})}), Is(F32({2, 1}, {0, 0})));
}

TEST(Reference, MatMulOfIntegersWraps) {
  EXPECT_THAT(
      Eval("MatMul", {Tensor::Of<int8_t>({1, 2}, {100, 100}), Tensor::Of<int8_t>({2, 1}, {1, 1})}),
      Is(Tensor::Of<int8_t>({1, 1}, {-56})));
}

TEST(Reference, MatMulSumsInDouble) {
  // In f32, 2^24 + 1 is 2^24: a chain of f32 additions would lose every 1.
  std::vector<float> ones(1001, 1.0f);
  ones[0] = 0x1p24f;
  const Tensor a = Tensor::FromSpan<float>({1, 1001}, ones);
  const Tensor b = Tensor::FromSpan<float>({1001, 1}, std::vector<float>(1001, 1.0f));
  EXPECT_EQ(Eval("MatMul", {a, b}).AsDouble(0), 0x1p24 + 1000);
}

// Batches by explicit repetition of the operands, one dot product at a time.
TEST(Reference, MatMulAgainstDotProducts) {
  const Tensor a = RandomTensor({DType::kF64, {2, 1, 3, 4}}, 1),
               b = RandomTensor({DType::kF64, {5, 4, 2}}, 2);
  const Tensor y = Eval("MatMul", {a, b});
  ASSERT_EQ(y.shape(), (Shape{2, 5, 3, 2}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      for (int64_t m = 0; m < 3; ++m) {
        for (int64_t n = 0; n < 2; ++n) {
          double dot = 0;
          for (int64_t k = 0; k < 4; ++k) {
            dot += a.AsDouble((i * 3 + m) * 4 + k) * b.AsDouble((j * 4 + k) * 2 + n);
          }
          EXPECT_NEAR(y.AsDouble(((i * 5 + j) * 3 + m) * 2 + n), dot, 1e-12);
        }
      }
    }
  }
}

TEST(Reference, GemmIsMatMulOfTransposes) {
  const Tensor a = RandomTensor({DType::kF64, {4, 3}}, 1),
               b = RandomTensor({DType::kF64, {5, 4}}, 2);
  const Tensor c = RandomTensor({DType::kF64, {5}}, 3);
  const Attrs attrs =
      MakeAttrs({{"transA", true}, {"transB", true}, {"alpha", 2.0}, {"beta", -3.0}});

  const Tensor product = Eval("MatMul", {Eval("Transpose", {a}), Eval("Transpose", {b})});
  const Tensor expected = Eval(
      "Add", {Eval("Mul", {product, Tensor::Scalar(2.0)}), Eval("Mul", {c, Tensor::Scalar(-3.0)})});
  EXPECT_LT(MaxError(Eval("Gemm", {a, b, c}, attrs), expected), 1e-12);
}

// --- Convolution -------------------------------------------------------------------------------

// Over a copy of X with the padding written out, so that no bound is ever tested.
Tensor ConvByPaddedCopy(const Tensor& x, const Tensor& w, int64_t group, Ints strides,
                        Ints dilations, Ints pads) {
  const Shape &xs = x.shape(), &ws = w.shape();
  const int64_t height = xs[2] + pads[0] + pads[2], width = xs[3] + pads[1] + pads[3];
  Tensor padded = Tensor::Zeros({DType::kF64, {xs[0], xs[1], height, width}});
  for (int64_t nc = 0; nc < xs[0] * xs[1]; ++nc) {
    for (int64_t i = 0; i < xs[2]; ++i) {
      for (int64_t j = 0; j < xs[3]; ++j) {
        padded.Set((nc * height + i + pads[0]) * width + j + pads[1],
                   x.AsDouble((nc * xs[2] + i) * xs[3] + j));
      }
    }
  }
  const int64_t out_h = (height - (ws[2] - 1) * dilations[0] - 1) / strides[0] + 1;
  const int64_t out_w = (width - (ws[3] - 1) * dilations[1] - 1) / strides[1] + 1;
  Tensor y = Tensor::Zeros({DType::kF64, {xs[0], ws[0], out_h, out_w}});
  for (int64_t at = 0; at < y.num_elements(); ++at) {
    const int64_t q = at % out_w, p = at / out_w % out_h, m = at / out_w / out_h % ws[0];
    const int64_t n = at / out_w / out_h / ws[0];
    double sum = 0;
    for (int64_t c = 0; c < ws[1]; ++c) {
      const int64_t channel = m / (ws[0] / group) * ws[1] + c;
      for (int64_t k = 0; k < ws[2]; ++k) {
        for (int64_t l = 0; l < ws[3]; ++l) {
          const int64_t i = p * strides[0] + k * dilations[0],
                        j = q * strides[1] + l * dilations[1];
          sum += padded.AsDouble(((n * xs[1] + channel) * height + i) * width + j) *
                 w.AsDouble(((m * ws[1] + c) * ws[2] + k) * ws[3] + l);
        }
      }
    }
    y.Set(at, sum);
  }
  return y;
}

TEST(Reference, ConvAgainstPaddedCopy) {
  int64_t seed = 0;
  for (int64_t group : {1, 2, 4}) {
    for (const Ints& strides : {Ints{1, 1}, Ints{2, 3}}) {
      for (const Ints& dilations : {Ints{1, 1}, Ints{2, 1}}) {
        for (const Ints& pads : {Ints{0, 0, 0, 0}, Ints{1, 2, 0, 3}, Ints{4, 0, 4, 0}}) {
          const Tensor x = RandomTensor({DType::kF64, {2, 4, 6, 7}}, ++seed);
          const Tensor w = RandomTensor({DType::kF64, {8, 4 / group, 3, 2}}, ++seed);
          const Attrs attrs = MakeAttrs(
              {{"group", group}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}});
          EXPECT_LT(MaxError(Eval("Conv", {x, w}, attrs),
                             ConvByPaddedCopy(x, w, group, strides, dilations, pads)),
                    1e-12);
        }
      }
    }
  }
}

TEST(Reference, ConvInOneAndThreeDims) {
  EXPECT_THAT(
      Eval("Conv", {F32({1, 1, 4}, {1, 2, 3, 4}), F32({1, 1, 2}, {1, 10}), F32({1}, {100})}),
      Is(F32({1, 1, 3}, {121, 132, 143})));

  // A 3-D kernel that picks one corner shifts the input.
  const Tensor x = RandomTensor({DType::kF64, {1, 1, 3, 3, 3}}, 1);
  Tensor w = Tensor::Zeros({DType::kF64, {1, 1, 2, 2, 2}});
  w.Set(5, 1);  // at [1,0,1]
  const Tensor y = Eval("Conv", {x, w});
  ASSERT_EQ(y.shape(), (Shape{1, 1, 2, 2, 2}));
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t a = i / 4, b = i / 2 % 2, c = i % 2;
    EXPECT_EQ(y.AsDouble(i), x.AsDouble(((a + 1) * 3 + b) * 3 + c + 1));
  }
}

TEST(Reference, ConvPadsToSameSize) {
  // 4 wide, window 2: one odd padding element, at the end or at the beginning.
  const Tensor x = F32({1, 1, 4}, {1, 2, 3, 4}), w = F32({1, 1, 2}, {1, 10});
  EXPECT_THAT(Eval("Conv", {x, w}, MakeAttrs({{"auto_pad", "SAME_UPPER"}})),
              Is(F32({1, 1, 4}, {21, 32, 43, 4})));
  EXPECT_THAT(Eval("Conv", {x, w}, MakeAttrs({{"auto_pad", "SAME_LOWER"}})),
              Is(F32({1, 1, 4}, {10, 21, 32, 43})));
  EXPECT_THAT(Eval("Conv", {x, w}, MakeAttrs({{"auto_pad", "VALID"}})),
              Is(F32({1, 1, 3}, {21, 32, 43})));
}

// Transposes of a linear map keep its inner products: <Conv(x), dy> = <x, dX(dy)> = <w, dW(x, dy)>.
TEST(Reference, ConvGradientsAreTransposes) {
  const Attrs geometry = MakeAttrs({{"group", int64_t{2}},
                                    {"strides", Ints{2, 1}},
                                    {"dilations", Ints{1, 2}},
                                    {"pads", Ints{1, 2, 0, 1}}});
  const Tensor x = RandomTensor({DType::kF64, {2, 4, 5, 6}}, 1);
  const Tensor w = RandomTensor({DType::kF64, {6, 2, 3, 2}}, 2);
  const Tensor y = Eval("Conv", {x, w}, geometry);
  const Tensor dy = RandomTensor(y.type(), 3);
  Attrs for_x = geometry, for_w = geometry;
  for_x.Set("input_shape", Ints{5, 6});
  for_w.Set("kernel_shape", Ints{3, 2});

  const auto inner = [](const Tensor& a, const Tensor& b) {
    double sum = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i) sum += a.AsDouble(i) * b.AsDouble(i);
    return sum;
  };
  EXPECT_NEAR(inner(y, dy), inner(x, Eval("grad.ConvInput", {dy, w}, for_x)), 1e-9);
  EXPECT_NEAR(inner(y, dy), inner(w, Eval("grad.ConvWeight", {x, dy}, for_w)), 1e-9);
}

// --- Pooling -----------------------------------------------------------------------------------

TEST(Reference, MaxPoolWithIndices) {
  const Tensor x = F32({1, 1, 3, 3}, {1, 9, 3, 4, 5, 6, 9, 8, 7});
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2, 2}}});
  const std::vector<Tensor> y = RunAll("MaxPool", {x}, attrs, 2);
  EXPECT_THAT(y[0], Is(F32({1, 1, 2, 2}, {9, 9, 9, 8})));
  EXPECT_THAT(y[1], Is(I64({1, 1, 2, 2}, {1, 1, 6, 7})));

  Attrs column_major = attrs;
  column_major.Set("storage_order", int64_t{1});
  EXPECT_THAT(RunAll("MaxPool", {x}, column_major, 2)[1], Is(I64({1, 1, 2, 2}, {3, 3, 2, 5})));
}

TEST(Reference, MaxPoolNeverPicksPadding) {
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}});
  EXPECT_THAT(Eval("MaxPool", {F32({1, 1, 2}, {-5, -3})}, attrs), Is(F32({1, 1, 3}, {-5, -3, -3})));
  EXPECT_THAT(Eval("MaxPool", {Tensor::Of<int8_t>({1, 1, 2}, {-5, -3})}, attrs),
              Is(Tensor::Of<int8_t>({1, 1, 3}, {-5, -3, -3})));
}

TEST(Reference, MaxPoolRoundsUpWithCeilMode) {
  const Tensor x = F32({1, 1, 5}, {1, 2, 3, 4, 5});
  Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  EXPECT_THAT(Eval("MaxPool", {x}, attrs), Is(F32({1, 1, 2}, {2, 4})));
  attrs.Set("ceil_mode", true);
  EXPECT_THAT(Eval("MaxPool", {x}, attrs), Is(F32({1, 1, 3}, {2, 4, 5})));
}

TEST(Reference, GlobalAveragePoolIsTheMeanOfEachChannel) {
  EXPECT_THAT(Eval("GlobalAveragePool", {F32({1, 2, 2, 2}, {1, 2, 3, 6, 10, 10, 10, 14})}),
              Is(F32({1, 2, 1, 1}, {3, 11})));
}

// --- Reductions --------------------------------------------------------------------------------

TEST(Reference, ReduceSumOverAxes) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Attrs drop = MakeAttrs({{"keepdims", false}});
  EXPECT_THAT(Eval("ReduceSum", {x, I64({1}, {0})}), Is(F32({1, 3}, {5, 7, 9})));
  EXPECT_THAT(Eval("ReduceSum", {x, I64({1}, {-1})}, drop), Is(F32({2}, {6, 15})));
  EXPECT_THAT(Eval("ReduceSum", {x}, drop), Is(F32({}, {21})));
  EXPECT_THAT(Eval("ReduceSum", {x, I64({0}, {})}, MakeAttrs({{"noop_with_empty_axes", true}})),
              Is(x));
  EXPECT_THAT(Eval("ReduceSum", {F32({2, 0}, {}), I64({1}, {1})}, drop), Is(F32({2}, {0, 0})));
  EXPECT_THAT(Eval("ReduceSum", {Tensor::Of<uint8_t>({2}, {200, 100})}, drop),
              Is(Tensor::Scalar<uint8_t>(44)));
}

TEST(Reference, ReduceMeanOverAxes) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 9});
  EXPECT_THAT(Eval("ReduceMean", {x}, MakeAttrs({{"axes", Ints{1}}})), Is(F32({2, 1}, {2, 6})));
  EXPECT_THAT(Eval("ReduceMean", {x}, MakeAttrs({{"keepdims", false}})), Is(F32({}, {4})));
}

TEST(Reference, SoftmaxSumsToOneAndIgnoresShifts) {
  const Tensor x = RandomTensor({DType::kF64, {3, 5, 4}}, 1);
  const Attrs attrs = MakeAttrs({{"axis", int64_t{1}}});
  const Tensor y = Eval("Softmax", {x}, attrs);
  const Tensor sums = Eval("ReduceSum", {y, I64({1}, {1})});
  for (int64_t i = 0; i < sums.num_elements(); ++i) EXPECT_NEAR(sums.AsDouble(i), 1, 1e-12);

  // exp would overflow without the shift by the maximum.
  EXPECT_LT(MaxError(Eval("Softmax", {Eval("Add", {x, Tensor::Scalar(1000.0)})}, attrs), y), 1e-9);
  // Ratios are exponentials of differences.
  EXPECT_NEAR(y.AsDouble(0) / y.AsDouble(4), std::exp(x.AsDouble(0) - x.AsDouble(4)), 1e-12);
}

TEST(Reference, LayerNormalizationHasZeroMeanAndUnitVariance) {
  const Tensor x = RandomTensor({DType::kF64, {4, 3, 7}}, 1, 5, 9);
  const Tensor ones = Eval("Add", {Tensor::Zeros({DType::kF64, {3, 7}}), Tensor::Scalar(1.0)});
  const std::vector<Tensor> y = RunAll("LayerNormalization", {x, ones},
                                       MakeAttrs({{"axis", int64_t{1}}, {"epsilon", 0.0}}), 3);
  const Attrs mean = MakeAttrs({{"axes", Ints{1, 2}}});
  const Tensor means = Eval("ReduceMean", {y[0]}, mean);
  const Tensor squares = Eval("ReduceMean", {Eval("Mul", {y[0], y[0]})}, mean);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(means.AsDouble(i), 0, 1e-12);
    EXPECT_NEAR(squares.AsDouble(i), 1, 1e-12);
  }
  EXPECT_LT(MaxError(y[1], Eval("ReduceMean", {x}, mean)), 1e-12);
  // (x - Mean) * InvStdDev is the result.
  EXPECT_LT(MaxError(Eval("Mul", {Eval("Sub", {x, y[1]}), y[2]}), y[0]), 1e-12);
}

TEST(Reference, LayerNormalizationByHand) {
  // Mean 2, variance 1, epsilon 0: -1 and 1, scaled by 10 and shifted.
  EXPECT_THAT(
      Eval("LayerNormalization", {F32({1, 2}, {1, 3}), F32({2}, {10, 10}), F32({2}, {0.5, 7})},
           MakeAttrs({{"epsilon", 0.0}})),
      Is(F32({1, 2}, {-9.5, 17})));
}

TEST(Reference, ArgMaxPicksFirstOrLast) {
  const Tensor x = F32({2, 3}, {1, 7, 7, 5, 5, 2});
  const Attrs drop = MakeAttrs({{"axis", int64_t{1}}, {"keepdims", false}});
  EXPECT_THAT(Eval("ArgMax", {x}, drop), Is(I64({2}, {1, 0})));
  Attrs last = drop;
  last.Set("select_last_index", true);
  EXPECT_THAT(Eval("ArgMax", {x}, last), Is(I64({2}, {2, 1})));
  EXPECT_THAT(Eval("ArgMax", {x}), Is(I64({1, 3}, {1, 0, 0})));
  EXPECT_THAT(Eval("ArgMax", {F32({3}, {1, NAN, 2})}), Is(I64({1}, {1})));
}

// --- Moving elements ---------------------------------------------------------------------------

TEST(Reference, TransposeMovesEveryElement) {
  const Tensor x = RandomTensor({DType::kF32, {2, 3, 4}}, 1);
  const Tensor y = Eval("Transpose", {x}, MakeAttrs({{"perm", Ints{2, 0, 1}}}));
  ASSERT_EQ(y.shape(), (Shape{4, 2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 4; ++k) {
        EXPECT_EQ(y.AsDouble((k * 2 + i) * 3 + j), x.AsDouble((i * 3 + j) * 4 + k));
      }
    }
  }
}

TEST(Reference, ReshapeAndFlattenKeepTheOrder) {
  const Tensor x = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Eval("Reshape", {x, I64({2}, {3, -1})}), Is(F32({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_THAT(Eval("Flatten", {x}, MakeAttrs({{"axis", int64_t{0}}})),
              Is(F32({1, 6}, {1, 2, 3, 4, 5, 6})));
}

TEST(Reference, SplitUndoesConcat) {
  const Tensor a = RandomTensor({DType::kF32, {2, 1, 3}}, 1),
               b = RandomTensor({DType::kF32, {2, 4, 3}}, 2);
  const Attrs attrs = MakeAttrs({{"axis", int64_t{1}}});
  const Tensor both = Eval("Concat", {a, b}, attrs);
  ASSERT_EQ(both.shape(), (Shape{2, 5, 3}));
  EXPECT_EQ(both.AsDouble(3), b.AsDouble(0));
  const std::vector<Tensor> parts = RunAll("Split", {both, I64({2}, {1, 4})}, attrs, 2);
  EXPECT_THAT(parts[0], Is(a));
  EXPECT_THAT(parts[1], Is(b));
}

TEST(Reference, GatherCountsFromBothEnds) {
  const Tensor x = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Eval("Gather", {x, I64({2}, {-1, 0})}), Is(F32({2, 2}, {5, 6, 1, 2})));
  EXPECT_THAT(Eval("Gather", {x, I64({}, {1})}, MakeAttrs({{"axis", int64_t{1}}})),
              Is(F32({3}, {2, 4, 6})));
}

TEST(Reference, GatherRefusesPositionsOutOfRange) {
  const Tensor x = F32({3}, {1, 2, 3});
  for (int64_t bad : {3, -4}) {
    const auto y = optest::RunReference("Gather", {}, {x, I64({2}, {0, bad})});
    ASSERT_FALSE(y.ok());
    EXPECT_THAT(std::string(y.status().message()), HasSubstr("is out of range [-3,3)"));
  }
}

TEST(Reference, GradGatherAddsRepeatedPositions) {
  EXPECT_THAT(Eval("grad.Gather", {F32({3, 1}, {1, 2, 4}), I64({3}, {1, -1, 1})},
                   MakeAttrs({{"size", int64_t{3}}})),
              Is(F32({3, 1}, {0, 5, 2})));
}

TEST(Reference, NonZeroListsPositionsByDim) {
  EXPECT_THAT(Eval("NonZero", {F32({2, 3}, {0, 1, 0, 2, 0, 3})}),
              Is(I64({2, 3}, {0, 1, 1, 1, 0, 2})));
  EXPECT_EQ(Eval("NonZero", {F32({2}, {0, 0})}).shape(), (Shape{1, 0}));
  EXPECT_EQ(Eval("NonZero", {F32({}, {5})}).shape(), (Shape{0, 1}));
}

// --- Element types -----------------------------------------------------------------------------

// Every op in f16, bf16 and f32, on operands those types hold exactly, against f64. An error of one
// rounding of the result is allowed; intermediate results of elementwise ops are f32.
TEST(Reference, NarrowFloatsAgreeWithDouble) {
  const std::pair<DType, double> kTypes[] = {
      {DType::kF16, 0x1p-11}, {DType::kBF16, 0x1p-8}, {DType::kF32, 0x1p-22}};
  for (const OpCase& c : optest::OpCases()) {
    // The types of their results are attributes.
    if (c.op == "Cast" || c.op.starts_with("fused.")) continue;
    for (const auto& [dtype, tolerance] : kTypes) {
      std::vector<Tensor> narrow, wide;
      for (const Tensor& t : c.inputs) {
        const bool data = t.has_data() && t.dtype() == DType::kF64;
        narrow.push_back(data ? Converted(t, dtype) : t);
        wide.push_back(data ? Converted(narrow.back(), DType::kF64) : t);
      }
      const std::vector<Tensor> y = RunAll(c.op, narrow, c.attrs, c.num_outputs);
      const std::vector<Tensor> expected = RunAll(c.op, wide, c.attrs, c.num_outputs);
      for (size_t i = 0; i < y.size(); ++i) {
        EXPECT_LE(MaxError(Converted(y[i], DType::kF64), Converted(expected[i], DType::kF64)),
                  tolerance)
            << c.name << " output " << i << " in " << DTypeName(dtype);
      }
    }
  }
}

// In place: each result laid over an operand's bytes, as the trait allows, is the same.
TEST(Reference, InPlaceOperandsMayBeOverwritten) {
  for (const OpCase& c : optest::OpCases()) {
    const OpDef& op = *FindOp(c.op);
    const std::vector<Tensor> expected = RunAll(c.op, c.inputs, c.attrs, c.num_outputs);
    for (const InPlacePair& pair : op.traits.in_place) {
      if (pair.output >= c.num_outputs || pair.input >= static_cast<int>(c.inputs.size())) continue;
      if (c.inputs[pair.input].type() != expected[pair.output].type()) continue;
      std::vector<Tensor> inputs = c.inputs;
      inputs[pair.input] = Converted(inputs[pair.input], inputs[pair.input].dtype());  // own bytes
      std::vector<Tensor> outputs;
      for (const Tensor& t : expected) outputs.push_back(Tensor::Zeros(t.type()));
      outputs[pair.output] = inputs[pair.input];  // shares them
      Attrs storage;
      const ReferenceContext context{WithDefaults(op, c.attrs, storage), inputs, outputs};
      ASSERT_TRUE(op.reference(context).ok()) << c.name;
      for (size_t i = 0; i < outputs.size(); ++i) {
        EXPECT_TRUE(BitEqual(outputs[i], expected[i]))
            << c.name << ": output " << i << " where " << pair.output << " lies over input "
            << pair.input;
      }
    }
  }
}

}  // namespace
}  // namespace millrace
