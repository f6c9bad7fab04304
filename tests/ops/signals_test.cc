// Transforms, windows, determinants, random numbers, and results whose size the data decide, with
// values worked out by hand.
#include <cmath>

#include "graph/weights.h"
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
using optest::RunAll;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kCloseSignal = 1e-6;

Tensor Number(int64_t value) { return Tensor::Scalar<int64_t>(value); }

// --- Fourier -------------------------------------------------------------------------------------

TEST(Dft, TransformsRealSignals) {
  // x + 2 at place 1: powers of -i.
  EXPECT_THAT(Eval("DFT", {F32({1, 4, 1}, {1, 2, 0, 0})}),
              IsNear(F32({1, 4, 2}, {3, 0, 1, -2, -1, 0, 1, 2}), kCloseSignal));
  EXPECT_THAT(Eval("DFT", {F32({1, 4, 1}, {1, 2, 0, 0})}, MakeAttrs({{"onesided", true}})),
              IsNear(F32({1, 3, 2}, {3, 0, 1, -2, -1, 0}), kCloseSignal));
  // Three places: by the definition.
  const float h = std::sqrt(3.0f) / 2;
  EXPECT_THAT(Eval("DFT", {F32({1, 3, 1}, {0, 1, 0})}),
              IsNear(F32({1, 3, 2}, {1, 0, -0.5f, -h, -0.5f, h}), kCloseSignal));
}

TEST(Dft, CutsAndFills) {
  EXPECT_THAT(Eval("DFT", {F32({1, 3, 1}, {1, 2, 5}), Number(2)}),
              IsNear(F32({1, 2, 2}, {3, 0, -1, 0}), kCloseSignal));
  EXPECT_THAT(Eval("DFT", {F32({1, 1, 1}, {3}), Number(2)}),
              IsNear(F32({1, 2, 2}, {3, 0, 3, 0}), kCloseSignal));
}

TEST(Dft, InvertsItself) {
  for (const int64_t size : {1, 2, 3, 5, 8, 12, 64}) {
    const Tensor x = optest::RandomTensor({DType::kF64, {2, size, 3, 2}}, 1);
    const Attrs forward = MakeAttrs({{"axis", int64_t{1}}});
    const Attrs inverse = MakeAttrs({{"axis", int64_t{1}}, {"inverse", true}});
    EXPECT_THAT(Eval("DFT", {Eval("DFT", {x}, forward)}, inverse), IsNear(x, 1e-12)) << size;
  }
}

TEST(Dft, SaysWhatIsWrong) {
  const Tensor x = Tensor::Zeros({DType::kF32, {1, 4, 1}});
  EXPECT_THAT(optest::ErrorOf("DFT", {Tensor::Zeros({DType::kF32, {1, 4, 3}})}),
              HasSubstr("must end in a dim of 1 (real) or 2 (complex)"));
  EXPECT_THAT(optest::ErrorOf("DFT", {x}, MakeAttrs({{"axis", int64_t{-1}}})),
              HasSubstr("'axis' is the dim of real and imaginary parts"));
  EXPECT_THAT(optest::ErrorOf("DFT", {x}, MakeAttrs({{"onesided", true}, {"inverse", true}})),
              HasSubstr("half a spectrum"));
  EXPECT_THAT(optest::ErrorOf("DFT", {x, Number(0)}), HasSubstr("'dft_length' is 0"));
}

TEST(Stft, TransformsFrames) {
  const Tensor signal = F32({1, 5, 1}, {1, 2, 3, 4, 5});
  EXPECT_THAT(Eval("STFT", {signal, Number(2), F32({2}, {1, 2})}),  // 1 4, 3 8
              IsNear(F32({1, 2, 2, 2}, {5, 0, -3, 0, 11, 0, -5, 0}), kCloseSignal));
  EXPECT_EQ(Eval("STFT", {signal, Number(1), Tensor(), Number(4)}).shape(), Shape({1, 2, 3, 2}));
  EXPECT_THAT(optest::ErrorOf("STFT", {signal, Number(1), Tensor(), Number(6)}),
              HasSubstr("a frame of 6 places does not fit in a signal of 5"));
  EXPECT_THAT(optest::ErrorOf("STFT", {signal, Number(1), F32({2}, {1, 1}), Number(3)}),
              HasSubstr("frames have 3 places, the window has 2"));
}

TEST(Windows, HaveTheirShapes) {
  EXPECT_THAT(Eval("HannWindow", {Number(4)}), IsNear(F32({4}, {0, 0.5, 1, 0.5}), kCloseSignal));
  EXPECT_THAT(Eval("HannWindow", {Number(3)}, MakeAttrs({{"periodic", false}})),
              IsNear(F32({3}, {0, 1, 0}), kCloseSignal));
  EXPECT_THAT(Eval("HannWindow", {Number(1)}, MakeAttrs({{"periodic", false}})),
              IsNear(F32({1}, {1}), kCloseSignal));
  EXPECT_THAT(Eval("HammingWindow", {Number(2)}), IsNear(F32({2}, {4.0f / 46, 1}), kCloseSignal));
  EXPECT_THAT(Eval("BlackmanWindow", {Number(4)}),
              IsNear(F32({4}, {0, 0.34f, 1, 0.34f}), kCloseSignal));
  EXPECT_EQ(Eval("HannWindow", {Number(4)}, MakeAttrs({{"output_datatype", "f16"}})).dtype(),
            DType::kF16);
}

TEST(MelWeightMatrix, IsMadeOfTriangles) {
  const Tensor weights =
      Eval("MelWeightMatrix", {Number(2), Number(16), Number(8000), F32({}, {0}), F32({}, {4000})});
  EXPECT_EQ(weights.shape(), Shape({9, 2}));
  // Corners at mel 0, 536, 1073, 1609: hertz 0, 426, 1113, 2219, of 470.6 a bin: 0, 0, 2, 4.
  const double first[] = {1, 0.5, 0, 0, 0, 0, 0, 0, 0}, second[] = {0, 0.5, 1, 0.5, 0, 0, 0, 0, 0};
  for (int64_t row = 0; row < 9; ++row) {
    EXPECT_NEAR(weights.AsDouble(2 * row), first[row], kCloseSignal) << row;
    EXPECT_NEAR(weights.AsDouble(2 * row + 1), second[row], kCloseSignal) << row;
  }
  EXPECT_THAT(optest::ErrorOf("MelWeightMatrix",
                              {Number(2), Number(16), Number(8000), F32({}, {0}), F32({}, {1e9f})}),
              HasSubstr("of a spectrum of 9"));
}

TEST(Det, OfSmallMatrices) {
  EXPECT_THAT(Eval("Det", {F32({2, 2}, {0, 1, 2, 3})}), IsNear(F32({}, {-2}), kCloseSignal));
  EXPECT_THAT(Eval("Det", {F32({2, 2, 2}, {1, 2, 2, 4, 3, 0, 0, 3})}),
              IsNear(F32({2}, {0, 9}), kCloseSignal));
  EXPECT_THAT(Eval("Det", {F32({3, 3}, {0, 0, 1, 1, 0, 0, 0, 1, 0})}),
              IsNear(F32({}, {1}), kCloseSignal));
  EXPECT_THAT(Eval("Det", {Tensor::Zeros({DType::kF32, {1, 0, 0}})}), Is(F32({1}, {1})));
  EXPECT_THAT(optest::ErrorOf("Det", {F32({2}, {1, 2})}), HasSubstr("must be those of a square"));
}

// --- Random numbers ------------------------------------------------------------------------------

Attrs Seeded(int64_t seed, std::vector<int64_t> shape) {
  return MakeAttrs({{"seed", seed}, {"shape", std::move(shape)}});
}

TEST(Random, ElementsDependOnSeedStepAndTheirNumberAlone) {
  const Tensor a = Eval("RandomUniform", {}, Seeded(3, {2, 5}));
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(a.AsDouble(i), UniformAt(3, i));
  EXPECT_THAT(Eval("RandomUniform", {}, Seeded(3, {2, 5})), Is(a));
  EXPECT_THAT(Eval("RandomUniform", {Number(0)}, Seeded(3, {2, 5})), Is(a));
  const Tensor longer = Eval("RandomUniform", {}, Seeded(3, {20}));
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(longer.AsDouble(i), a.AsDouble(i));
  for (const Tensor& other : {Eval("RandomUniform", {Number(1)}, Seeded(3, {2, 5})),
                              Eval("RandomUniform", {}, Seeded(4, {2, 5}))}) {
    for (int64_t i = 0; i < 10; ++i) EXPECT_NE(other.AsDouble(i), a.AsDouble(i));
  }
}

// Initial data of a seed and RandomNormal of that seed are one stream.
TEST(Random, StepZeroIsTheStreamOfInitialData) {
  const auto init = GenerateInit({DType::kF32, {7}}, {.kind = InitKind::kNormal, .seed = 9});
  ASSERT_TRUE(init.ok());
  EXPECT_THAT(Eval("RandomNormal", {}, Seeded(9, {7})), Is(*init));
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments MomentsOf(const Tensor& t) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    sum += t.AsDouble(i);
    squares += t.AsDouble(i) * t.AsDouble(i);
  }
  const double n = static_cast<double>(t.num_elements());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}

TEST(Random, DistributionsAreAsAsked) {
  Attrs attrs = Seeded(1, {100000});
  attrs.Set("mean", 3.0);
  attrs.Set("scale", 2.0);
  const Moments normal = MomentsOf(Eval("RandomNormal", {Number(8)}, attrs));
  EXPECT_NEAR(normal.mean, 3, 0.03);
  EXPECT_NEAR(normal.deviation, 2, 0.03);
  attrs = Seeded(1, {100000});
  attrs.Set("low", -2.0);
  attrs.Set("high", 6.0);
  const Moments uniform = MomentsOf(Eval("RandomUniform", {}, attrs));
  EXPECT_NEAR(uniform.mean, 2, 0.03);
  EXPECT_NEAR(uniform.deviation, 8 / std::sqrt(12.0), 0.03);
}

TEST(Random, LikeAnInput) {
  const Tensor like = Eval("RandomUniformLike", {Tensor::Zeros({DType::kF16, {2, 3}})});
  EXPECT_EQ(like.type(), (TensorType{DType::kF16, {2, 3}}));
  EXPECT_EQ(Eval("RandomNormalLike", {I64({2}, {0, 0})}, MakeAttrs({{"dtype", "f32"}})).type(),
            (TensorType{DType::kF32, {2}}));
  EXPECT_THAT(optest::ErrorOf("RandomNormalLike", {I64({2}, {0, 0})}),
              HasSubstr("'dtype' must say which floats to draw: the input is i64"));
  EXPECT_THAT(optest::ErrorOf("RandomNormalLike", {F32({1}, {0}), I64({2}, {0, 0})}),
              HasSubstr("'step' must have one element"));
}

TEST(Bernoulli, DrawsByProbability) {
  Tensor p = Tensor::Zeros({DType::kF32, {10000}});
  for (int64_t i = 0; i < 10000; ++i) p.Set(i, 0.25);
  EXPECT_NEAR(MomentsOf(Eval("Bernoulli", {p})).mean, 0.25, 0.02);
  EXPECT_THAT(Eval("Bernoulli", {F32({3}, {0, 1, 0})}, MakeAttrs({{"dtype", "bool"}})),
              Is(Tensor::Of<bool>({3}, {false, true, false})));
}

TEST(Multinomial, DrawsByLogProbability) {
  const float none = -std::numeric_limits<float>::infinity();
  const Tensor x = F32({2, 3}, {std::log(1.0f), none, std::log(3.0f), 500, none, none});
  const Tensor y = Eval("Multinomial", {x}, MakeAttrs({{"sample_size", int64_t{10000}}}));
  EXPECT_EQ(y.type(), (TensorType{DType::kI32, {2, 10000}}));
  int64_t counts[3] = {};
  for (int64_t i = 0; i < 10000; ++i) ++counts[y.AsInt64(i)];
  EXPECT_NEAR(static_cast<double>(counts[0]), 2500, 200);
  EXPECT_EQ(counts[1], 0);
  for (int64_t i = 10000; i < 20000; ++i) ASSERT_EQ(y.AsInt64(i), 0);
  EXPECT_THAT(optest::ErrorOf("Multinomial", {F32({1, 2}, {NAN, 0})}),
              HasSubstr("row 0 holds no log"));
  EXPECT_THAT(optest::ErrorOf("Multinomial", {Tensor::Zeros({DType::kF32, {1, 0}})}),
              HasSubstr("there are no classes to draw from"));
}

// --- Sizes that the data decide ------------------------------------------------------------------

TEST(Unique, ListsWhatThereIs) {
  const Tensor x = F32({6}, {2, 1, 1, 3, 4, 3});
  EXPECT_THAT(RunAll("Unique", {x}, {}, 4),
              ElementsAre(Is(F32({4}, {1, 2, 3, 4})), Is(I64({4}, {1, 0, 3, 4})),
                          Is(I64({6}, {1, 0, 0, 2, 3, 2})), Is(I64({4}, {2, 1, 2, 1}))));
  EXPECT_THAT(RunAll("Unique", {x}, MakeAttrs({{"sorted", false}}), 4),
              ElementsAre(Is(F32({4}, {2, 1, 3, 4})), Is(I64({4}, {0, 1, 3, 4})),
                          Is(I64({6}, {0, 1, 1, 2, 3, 2})), Is(I64({4}, {1, 2, 2, 1}))));
}

TEST(Unique, OfSlices) {
  const Tensor x = F32({2, 3}, {1, 0, 1, 2, 0, 2});
  EXPECT_THAT(RunAll("Unique", {x}, MakeAttrs({{"axis", int64_t{1}}}), 4),
              ElementsAre(Is(F32({2, 2}, {0, 1, 0, 2})), Is(I64({2}, {1, 0})),
                          Is(I64({3}, {1, 0, 1})), Is(I64({2}, {1, 2}))));
}

TEST(Unique, NanIsOneValueAndTheLargest) {
  const auto y = RunAll("Unique", {F32({4}, {NAN, 1, NAN, -INFINITY})}, {}, 4);
  EXPECT_EQ(y[0].shape(), Shape({3}));
  EXPECT_TRUE(std::isnan(y[0].AsDouble(2)));
  EXPECT_THAT(y[2], Is(I64({4}, {2, 1, 2, 0})));
}

TEST(Unique, KeepsAllDigits) {
  const int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_THAT(Eval("Unique", {I64({3}, {big, big - 1, big})}), Is(I64({2}, {big - 1, big})));
}

TEST(Compress, KeepsWhereTheConditionHolds) {
  const Tensor x = F32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Eval("Compress", {x, Tensor::Of<bool>({3}, {false, true, true})},
                   MakeAttrs({{"axis", int64_t{0}}})),
              Is(F32({2, 2}, {3, 4, 5, 6})));
  EXPECT_THAT(Eval("Compress", {x, Tensor::Of<bool>({5}, {false, true, false, false, true})}),
              Is(F32({2}, {2, 5})));
  EXPECT_THAT(optest::ErrorOf("Compress", {x, Tensor::Of<bool>({7}, {1, 1, 1, 1, 1, 1, 1})}),
              HasSubstr("the condition has 7 elements for 6 to choose from"));
}

TEST(NonMaxSuppression, KeepsTheBestOfWhatOverlaps) {
  const Tensor boxes = F32({1, 6, 4}, {0, 0,  1, 1,  0, 0.1,  1, 1.1,  0, -0.1, 1, 0.9,  //
                                       0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100,  1, 101});
  const Tensor scores = F32({1, 1, 6}, {0.9, 0.75, 0.6, 0.95, 0.5, 0.3});
  const auto select = [&](int64_t most, float overlap, float least) {
    return Eval("NonMaxSuppression",
                {boxes, scores, Number(most), Tensor::Scalar(overlap), Tensor::Scalar(least)});
  };
  EXPECT_THAT(select(3, 0.5, 0), Is(I64({3, 3}, {0, 0, 3, 0, 0, 0, 0, 0, 5})));
  EXPECT_THAT(select(2, 0.5, 0), Is(I64({2, 3}, {0, 0, 3, 0, 0, 0})));
  EXPECT_THAT(select(9, 0.5, 0.4f), Is(I64({2, 3}, {0, 0, 3, 0, 0, 0})));
  EXPECT_EQ(select(9, 1, 0).shape(), Shape({6, 3}));
  EXPECT_EQ(Eval("NonMaxSuppression", {boxes, scores}).shape(), Shape({0, 3}));
  // The same boxes by corners in any order, and by centre and size.
  const Tensor flipped = F32({1, 2, 4}, {1, 1, 0, 0, 0, 0.1, 1, 1.1});
  EXPECT_THAT(
      Eval("NonMaxSuppression", {flipped, F32({1, 1, 2}, {1, 2}), Number(5), Tensor::Scalar(0.5f)}),
      Is(I64({1, 3}, {0, 0, 1})));
  const Tensor centered = F32({1, 2, 4}, {0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1});
  EXPECT_THAT(
      Eval("NonMaxSuppression", {centered, F32({1, 1, 2}, {1, 1}), Number(5), Tensor::Scalar(0.5f)},
           MakeAttrs({{"center_point_box", int64_t{1}}})),
      Is(I64({1, 3}, {0, 0, 0})));
}

}  // namespace
}  // namespace millrace
