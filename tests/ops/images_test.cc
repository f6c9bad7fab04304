// Einsum, and ops on images, with values worked out by hand or given by the ONNX specification.
#include <cmath>

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

constexpr double kClose = 1e-5;

Tensor Ramp(const Shape& shape, float first = 0) {
  Tensor tensor = Tensor::Zeros({DType::kF32, shape});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, first + static_cast<double>(i));
  }
  return tensor;
}

// --- Einsum --------------------------------------------------------------------------------------

Tensor Sums(const std::string& equation, const std::vector<Tensor>& inputs) {
  return Eval("Einsum", inputs, MakeAttrs({{"equation", equation}}));
}

TEST(Einsum, MultipliesAndSums) {
  const Tensor a = F32({2, 3}, {1, 2, 3, 4, 5, 6}), b = F32({3, 2}, {1, 0, 0, 1, 1, 1});
  EXPECT_THAT(Sums("ij,jk->ik", {a, b}), Is(F32({2, 2}, {4, 5, 10, 11})));
  EXPECT_THAT(Sums("ij,jk->ki", {a, b}), Is(F32({2, 2}, {4, 10, 5, 11})));
  EXPECT_THAT(Sums("ij->", {a}), Is(F32({}, {21})));
  EXPECT_THAT(Sums("i,j->ij", {F32({2}, {1, 2}), F32({2}, {3, 4})}), Is(F32({2, 2}, {3, 4, 6, 8})));
  EXPECT_THAT(Sums("ij,kj,lk->li", {a, a, F32({1, 2}, {1, -1})}), Is(F32({1, 2}, {-18, -45})));
}

// Left out, the result has the labels that occur once, in alphabetical order.
TEST(Einsum, ResultsMayBeImplied) {
  const Tensor a = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(Sums("ba", {a}), Is(F32({3, 2}, {1, 4, 2, 5, 3, 6})));
  EXPECT_THAT(Sums("ij,kj", {a, F32({1, 3}, {1, 1, 1})}), Is(F32({2, 1}, {6, 15})));
  EXPECT_THAT(Sums("aB", {a}), Is(F32({3, 2}, {1, 4, 2, 5, 3, 6})));  // B before a
  EXPECT_THAT(Sums("...j,j", {a, F32({3}, {1, 0, 2})}), Is(F32({2}, {7, 16})));
}

TEST(Einsum, TakesDiagonals) {
  const Tensor a = F32({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_THAT(Sums("ii->i", {a}), Is(F32({3}, {1, 5, 9})));
  EXPECT_THAT(Sums("ii", {a}), Is(F32({}, {15})));
  EXPECT_THAT(Sums("...ii->...", {Tensor(a).Reshaped({1, 3, 3})}), Is(F32({1}, {15})));
}

TEST(Einsum, DotsAlignAtTheEndAndBroadcast) {
  const Tensor a = F32({2, 1, 2}, {1, 2, 3, 4}), b = F32({3, 2}, {1, 1, 1, 0, 0, 1});
  EXPECT_THAT(Sums("...i,...i->...", {a, b}), Is(F32({2, 3}, {3, 1, 2, 7, 3, 4})));
}

TEST(Einsum, IntegersWrapAround) {
  EXPECT_THAT(Sums("i,i", {Tensor::Of<int8_t>({2}, {100, 1}), Tensor::Of<int8_t>({2}, {2, 1})}),
              Is(Tensor::Of<int8_t>({}, {-55})));
}

// One operand after the other, i j k would be kept although no operand has all three.
TEST(Einsum, MultipliesAllAtOnceWhereAProductInBetweenWouldBeLarger) {
  constexpr int64_t kSize = 20;
  std::vector<Tensor> operands;
  for (int i = 0; i < 3; ++i) operands.push_back(Ramp({kSize}));
  for (int i = 0; i < 3; ++i) operands.push_back(Ramp({kSize, kSize}, 1));
  for (Tensor& t : operands) {
    for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, 1);
  }
  EXPECT_THAT(Sums("i,j,k,ij,jk,ik->", operands), Is(F32({}, {kSize * kSize * kSize})));
}

TEST(Einsum, SaysWhatIsWrong) {
  const Tensor a = Ramp({2, 3}), b = Ramp({4, 2});
  const auto error = [](const std::string& equation, const std::vector<Tensor>& inputs) {
    return optest::ErrorOf("Einsum", inputs, MakeAttrs({{"equation", equation}}));
  };
  EXPECT_THAT(error("ij,jk->ik", {a, b}), HasSubstr("'j' is 3 and, in dim 0 of operand 1, 4"));
  EXPECT_THAT(error("ij->ik", {a}), HasSubstr("the result names 'k', which no operand has"));
  EXPECT_THAT(error("ij->ii", {a}), HasSubstr("the result names 'i' twice"));
  EXPECT_THAT(error("ijk->i", {a}), HasSubstr("names 3 dims of operand 0, which has 2"));
  EXPECT_THAT(error("i->i", {a}), HasSubstr("names 1 dims of operand 0, which has 2"));
  EXPECT_THAT(error("ij,jk", {a}), HasSubstr("the equation has 2 operands, the node 1"));
  EXPECT_THAT(error("i1", {a}), HasSubstr("must be letters and at most one '...'"));
  EXPECT_THAT(error("...i...", {a}), HasSubstr("must be letters and at most one '...'"));
  EXPECT_THAT(error("...j->j", {a}), HasSubstr("which the result does not name"));
  EXPECT_THAT(error("ii", {a}), HasSubstr("'i' is 2 and, in dim 1 of operand 0, 3"));
  EXPECT_THAT(error("i->->i", {a}), HasSubstr("must be letters"));
}

// --- Resize --------------------------------------------------------------------------------------

Tensor Scaled(const Tensor& x, std::initializer_list<float> scales, const Attrs& attrs) {
  return Eval("Resize", {x, Tensor(), Tensor::Of<float>({2}, scales)}, attrs);
}

TEST(Resize, NearestRepeatsAndDrops) {
  EXPECT_THAT(Scaled(F32({2, 2}, {1, 2, 3, 4}), {2, 3}, {}),
              Is(F32({4, 6}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2,  //
                              3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4})));
  EXPECT_THAT(Scaled(Ramp({2, 4}, 1), {0.6, 0.6}, {}), Is(F32({1, 2}, {1, 3})));
  EXPECT_THAT(Scaled(Tensor::Of<bool>({1, 2}, {true, false}), {1, 2}, {}),
              Is(Tensor::Of<bool>({1, 4}, {true, true, false, false})));
}

TEST(Resize, NearestRoundsAsAsked) {
  const auto at = [](const char* mode) {  // coordinates 0, 0.5, 1, 1.5, ...
    return Scaled(
        Ramp({1, 3}), {1, 2},
        MakeAttrs({{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", mode}}));
  };
  EXPECT_THAT(at("round_prefer_floor"), Is(F32({1, 6}, {0, 0, 1, 1, 2, 2})));
  EXPECT_THAT(at("round_prefer_ceil"), Is(F32({1, 6}, {0, 1, 1, 2, 2, 2})));
  EXPECT_THAT(at("floor"), Is(F32({1, 6}, {0, 0, 1, 1, 2, 2})));
  EXPECT_THAT(at("ceil"), Is(F32({1, 6}, {0, 1, 1, 2, 2, 2})));
}

TEST(Resize, LinearByEachTransformation) {
  const Tensor x = F32({2, 2}, {1, 2, 3, 4});
  const auto by = [&](const char* mode) {
    return Scaled(x, {2, 2},
                  MakeAttrs({{"mode", "linear"}, {"coordinate_transformation_mode", mode}}));
  };
  EXPECT_THAT(by("half_pixel"), IsNear(F32({4, 4}, {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5,  //
                                                    2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}),
                                       kClose));
  EXPECT_THAT(by("align_corners"),
              IsNear(F32({4, 4}, {1, 1.3333333, 1.6666667, 2, 1.6666667, 2, 2.3333333, 2.6666667,
                                  2.3333333, 2.6666667, 3, 3.3333333, 3, 3.3333333, 3.6666667, 4}),
                     kClose));
  EXPECT_THAT(by("asymmetric"), IsNear(F32({4, 4}, {1, 1.5, 2, 2, 2, 2.5, 3, 3,  //
                                                    3, 3.5, 4, 4, 3, 3.5, 4, 4}),
                                       kClose));
}

TEST(Resize, SmallerByFractions) {
  const Tensor x = Ramp({2, 4}, 1);
  const auto by = [&](Attrs attrs) {
    attrs.Set("mode", "linear");
    return Scaled(x, {0.6, 0.6}, attrs);
  };
  EXPECT_THAT(by({}), IsNear(F32({1, 2}, {2.6666665, 4.3333331}), kClose));
  EXPECT_THAT(by(MakeAttrs({{"coordinate_transformation_mode", "align_corners"}})),
              IsNear(F32({1, 2}, {1, 3.142857}), kClose));
  EXPECT_THAT(by(MakeAttrs({{"antialias", true}})), IsNear(F32({1, 2}, {2.875, 4.5}), kClose));
}

TEST(Resize, Cubic) {
  const Tensor x = Ramp({4, 4}, 1);
  const Tensor larger = Scaled(x, {2, 2}, MakeAttrs({{"mode", "cubic"}}));
  EXPECT_EQ(larger.shape(), Shape({8, 8}));
  const double first_row[] = {0.47265625, 0.76953125, 1.24609375, 1.875,
                              2.28125,    2.91015625, 3.38671875, 3.68359375};
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(larger.AsDouble(i), first_row[i], kClose);
  EXPECT_THAT(Scaled(x, {0.6, 0.6}, MakeAttrs({{"mode", "cubic"}, {"antialias", true}})),
              IsNear(F32({2, 2}, {2.5180721, 4.2858863, 9.589329, 11.357142}), kClose));
  // With taps beyond the edge left out, weights still sum to 1.
  EXPECT_THAT(Scaled(F32({1, 2}, {3, 3}), {1, 2},
                     MakeAttrs({{"mode", "cubic"}, {"exclude_outside", true}})),
              IsNear(F32({1, 4}, {3, 3, 3, 3}), kClose));
}

TEST(Resize, CropsAndExtrapolates) {
  const Attrs attrs = MakeAttrs({{"mode", "linear"},
                                 {"coordinate_transformation_mode", "tf_crop_and_resize"},
                                 {"extrapolation_value", 10.0}});
  // Coordinates -1, 0.25, 1.5, 2.75, 4 of 0..3.
  EXPECT_THAT(Eval("Resize",
                   {Ramp({4}), F32({2}, {-0.33333334, 1.3333334}), Tensor(), I64({1}, {5})}, attrs),
              IsNear(F32({5}, {10, 0.25, 1.5, 2.75, 10}), 1e-4));
}

TEST(Resize, KeepsTheAspectRatio) {
  const auto shape = [](const char* policy, std::initializer_list<int64_t> sizes) {
    return Eval("Resize", {Ramp({2, 3, 4}), Tensor(), Tensor(), I64({2}, sizes)},
                MakeAttrs({{"axes", Ints{2, 1}}, {"keep_aspect_ratio_policy", policy}}))
        .shape();
  };
  EXPECT_EQ(shape("stretch", {8, 3}), Shape({2, 3, 8}));
  EXPECT_EQ(shape("not_larger", {8, 4}), Shape({2, 4, 5}));   // by 4/3: 5.33 and 4
  EXPECT_EQ(shape("not_smaller", {8, 3}), Shape({2, 6, 8}));  // by 2
}

TEST(Resize, IntegersRoundAndSaturate) {
  EXPECT_THAT(Scaled(Tensor::Of<uint8_t>({1, 2}, {0, 255}), {1, 2}, MakeAttrs({{"mode", "cubic"}})),
              Is(Tensor::Of<uint8_t>({1, 4}, {0, 58, 197, 255})));
}

TEST(Resize, SaysWhatIsWrong) {
  const Tensor x = Ramp({2, 2}), none, two = F32({2}, {2, 2});
  EXPECT_THAT(optest::ErrorOf("Resize", {x}), HasSubstr("exactly one of 'scales' and 'sizes'"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, two, I64({2}, {4, 4})}),
              HasSubstr("exactly one of 'scales' and 'sizes'"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, F32({1}, {2})}),
              HasSubstr("'scales' has 1 elements, expected 2"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, F32({2}, {2, -1})}),
              HasSubstr("'scales' has -1"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, F32({2}, {2, NAN})}),
              HasSubstr("'scales' has nan"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, F32({2}, {2, 1e30f})}),
              HasSubstr("would have size"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, none, I64({2}, {2, -4})}),
              HasSubstr("'sizes' has -4"));
  EXPECT_THAT(optest::ErrorOf("Resize", {Ramp({0, 2}), none, none, I64({2}, {2, 2})}),
              HasSubstr("dim 0 is empty and cannot become 2"));
  EXPECT_THAT(
      optest::ErrorOf("Resize", {x, none, two},
                      MakeAttrs({{"coordinate_transformation_mode", "tf_crop_and_resize"}})),
      HasSubstr("needs 'roi'"));
  EXPECT_THAT(optest::ErrorOf("Resize", {x, none, two}, MakeAttrs({{"axes", Ints{0, -2}}})),
              HasSubstr("axis -2 is given twice"));
  EXPECT_THAT(optest::ErrorOf("Resize", {Tensor::Of<bool>({1}, {true}), none, F32({1}, {2})},
                              MakeAttrs({{"mode", "linear"}})),
              HasSubstr("bool has no values in between"));
}

// --- Sampling ------------------------------------------------------------------------------------

TEST(GridSample, ReadsBetweenElements) {
  const Tensor x = F32({1, 1, 2, 2}, {0, 1, 2, 3});
  const auto at = [&](float column, float row, const Attrs& attrs = {}) {
    return Eval("GridSample", {x, F32({1, 1, 1, 2}, {column, row})}, attrs).AsDouble(0);
  };
  EXPECT_EQ(at(0, 0), 1.5);
  EXPECT_EQ(at(-0.5, -0.5), 0);  // the first element's centre
  EXPECT_EQ(at(0.5, -0.5), 1);
  EXPECT_EQ(at(1, 1), 0.75);  // the corner: three quarters lie outside
  const Attrs aligned = MakeAttrs({{"align_corners", true}});
  EXPECT_EQ(at(1, 1, aligned), 3);
  EXPECT_EQ(at(-1, 1, aligned), 2);
  EXPECT_EQ(at(1, 1, MakeAttrs({{"padding_mode", "border"}})), 3);
  EXPECT_EQ(at(3, 0, MakeAttrs({{"padding_mode", "border"}})), 2);
  EXPECT_EQ(at(1.5, -0.5, MakeAttrs({{"padding_mode", "reflection"}})), 1);
  EXPECT_EQ(at(2.5, -0.5, MakeAttrs({{"padding_mode", "reflection"}})), 0);
  EXPECT_EQ(at(0.1, 0.1, MakeAttrs({{"mode", "nearest"}})), 3);
  EXPECT_EQ(at(NAN, 0), 0);
  EXPECT_EQ(at(INFINITY, 0), 0);
}

TEST(AffineGrid, MapsAllPoints) {
  const Tensor turned = F32({1, 2, 3}, {0, 1, 0, -1, 0, 0.5});  // x <- y, y <- 0.5 - x
  EXPECT_THAT(Eval("AffineGrid", {turned, I64({4}, {1, 1, 1, 2})}),
              IsNear(F32({1, 1, 2, 2}, {0, 1, 0, 0}), kClose));
  EXPECT_THAT(
      Eval("AffineGrid", {turned, I64({4}, {1, 1, 2, 1})}, MakeAttrs({{"align_corners", true}})),
      IsNear(F32({1, 2, 1, 2}, {-1, 0.5, 1, 0.5}), kClose));
  EXPECT_THAT(optest::ErrorOf("AffineGrid", {turned, I64({5}, {1, 1, 1, 2, 2})}),
              HasSubstr("theta must be [1,3,4]"));
}

TEST(RoiAlign, AveragesSamplesOfBins) {
  const Tensor x = Ramp({1, 1, 4, 4});
  const auto pooled = [&](std::initializer_list<float> roi, Attrs attrs) {
    return Eval("RoiAlign", {x, Tensor::Of<float>({1, 4}, roi), I64({1}, {0})}, attrs);
  };
  // One sample in the middle of each of four bins; element (i, j) is 4 i + j.
  Attrs attrs = MakeAttrs({{"output_height", int64_t{2}},
                           {"output_width", int64_t{2}},
                           {"sampling_ratio", int64_t{1}}});
  EXPECT_THAT(pooled({0, 0, 4, 4}, attrs),
              IsNear(F32({1, 1, 2, 2}, {2.5, 4.5, 10.5, 12.5}), kClose));
  attrs.Set("coordinate_transformation_mode", "output_half_pixel");
  EXPECT_THAT(pooled({0, 0, 2, 2}, attrs), IsNear(F32({1, 1, 2, 2}, {2.5, 3.5, 6.5, 7.5}), kClose));
  // A sample on element 5 alone.
  EXPECT_THAT(
      pooled({0.5, 0.5, 1.5, 1.5},
             MakeAttrs({{"mode", "max"}, {"coordinate_transformation_mode", "output_half_pixel"}})),
      IsNear(F32({1, 1, 1, 1}, {5}), kClose));
}

TEST(RoiAlign, RefusesRegionsThatMakeNoSense) {
  const Tensor x = Ramp({1, 1, 4, 4});
  const auto error = [&](std::initializer_list<float> roi, int64_t image) {
    return optest::ErrorOf("RoiAlign", {x, Tensor::Of<float>({1, 4}, roi), I64({1}, {image})});
  };
  EXPECT_EQ(error({0, 0, 4, 4}, 0), "");
  EXPECT_THAT(error({0, 0, 4, 4}, 1), HasSubstr("region 0 is in image 1, out of range [0,1)"));
  EXPECT_THAT(error({0, 0, 1e9f, 4}, 0), HasSubstr("that is too many"));
  EXPECT_THAT(error({0, 0, NAN, 4}, 0), HasSubstr("that is too many"));
}

TEST(MaxRoiPool, TakesTheLargestElementOfEachBin) {
  const Tensor x = Ramp({1, 1, 4, 4});
  const Attrs attrs = MakeAttrs({{"pooled_shape", Ints{2, 2}}});
  EXPECT_THAT(Eval("MaxRoiPool", {x, F32({2, 5}, {0, 0, 0, 3, 3, 0, 1, 1, 2, 2})}, attrs),
              Is(F32({2, 1, 2, 2}, {5, 7, 13, 15, 5, 6, 9, 10})));
  EXPECT_THAT(optest::ErrorOf("MaxRoiPool", {x, F32({1, 5}, {2, 0, 0, 1, 1})}, attrs),
              HasSubstr("out of range [0,1)"));
}

TEST(CenterCropPad, KeepsTheMiddle) {
  EXPECT_THAT(Eval("CenterCropPad", {Ramp({5}), I64({1}, {2})}), Is(F32({2}, {1, 2})));
  EXPECT_THAT(Eval("CenterCropPad", {Ramp({2}, 1), I64({1}, {5})}), Is(F32({5}, {0, 1, 2, 0, 0})));
  EXPECT_THAT(
      Eval("CenterCropPad", {Ramp({1, 3}, 1), I64({1}, {1})}, MakeAttrs({{"axes", Ints{-1}}})),
      Is(F32({1, 1}, {2})));
  EXPECT_THAT(optest::ErrorOf("CenterCropPad", {Ramp({2, 2}), I64({1}, {5})}),
              HasSubstr("'shape' has 1 sizes for 2 axes"));
}

TEST(Col2Im, AddsUpWhereBlocksOverlap) {
  EXPECT_THAT(Eval("Col2Im", {F32({1, 2, 3}, {1, 2, 3, 10, 20, 30}), I64({1}, {4}), I64({1}, {2})}),
              Is(F32({1, 1, 4}, {1, 12, 23, 30})));
  EXPECT_THAT(optest::ErrorOf("Col2Im", {Ramp({1, 2, 4}), I64({1}, {4}), I64({1}, {2})}),
              HasSubstr("the window has 3 places, but the input has 4 columns"));
  EXPECT_THAT(optest::ErrorOf("Col2Im", {Ramp({1, 3, 3}), I64({1}, {4}), I64({1}, {2})}),
              HasSubstr("3 rows are no whole number of blocks of 2"));
}

TEST(DeformConv, MovesItsTaps) {
  const Tensor x = Ramp({1, 1, 3, 3}), w = F32({1, 1, 2, 2}, {1, 1, 1, 1});
  Tensor offset = Tensor::Zeros({DType::kF32, {1, 8, 2, 2}});
  EXPECT_THAT(Eval("DeformConv", {x, w, offset}), Is(F32({1, 1, 2, 2}, {8, 12, 20, 24})));
  offset.Set(0, 0.5);           // tap (0,0) of place (0,0): down half a row
  offset.Set(5 * 4 + 1, -0.1);  // tap (1,0) of place (0,1): left a tenth of a column
  EXPECT_THAT(Eval("DeformConv", {x, w, offset}),
              IsNear(F32({1, 1, 2, 2}, {9.5, 11.9, 20, 24}), kClose));
  Tensor mask = Tensor::Zeros({DType::kF32, {1, 4, 2, 2}});
  mask.Set(0, 2);
  EXPECT_THAT(Eval("DeformConv", {x, w, offset, F32({1}, {1}), mask}),
              IsNear(F32({1, 1, 2, 2}, {4, 1, 1, 1}), kClose));
  EXPECT_THAT(optest::ErrorOf("DeformConv", {x, w, Tensor::Zeros({DType::kF32, {1, 8, 3, 2}})}),
              HasSubstr("'offset' must be [1,8,2,2]"));
}

}  // namespace
}  // namespace millrace
