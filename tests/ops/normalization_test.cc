// Normalizations: values worked out by hand, result types, and what is said of wrong ones.
#include <cmath>

#include "tests/ops/infer_support.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::ErrorOf;
using optest::ErrorsOf;
using optest::Eval;
using optest::F32;
using optest::Is;
using optest::IsNear;
using optest::MakeAttrs;
using optest::MaxError;
using optest::RandomTensor;
using optest::RunAll;
using optest::TypesOf;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

TEST(BatchNormalization, ByGivenStatistics) {
  const Tensor x = F32({1, 2, 2}, {1, 3, -2, 6});
  const Attrs attrs = MakeAttrs({{"epsilon", 1.0}});
  EXPECT_THAT(
      Eval("BatchNormalization",
           {x, F32({2}, {2, 10}), F32({2}, {0, 1}), F32({2}, {1, 2}), F32({2}, {0, 3})}, attrs),
      Is(F32({1, 2, 2}, {0, 4, -19, 21})));
}

// The channel holds 1, 3, 5, 7: mean 4, variance 5.
TEST(BatchNormalization, TrainingMovesTheRunningStatistics) {
  const Attrs attrs = MakeAttrs({{"epsilon", 4.0}, {"momentum", 0.75}, {"training_mode", true}});
  const Tensor one = F32({1}, {1}), zero = F32({1}, {0});
  const auto y =
      RunAll("BatchNormalization", {F32({2, 1, 2}, {1, 3, 5, 7}), one, zero, zero, one}, attrs, 3);
  EXPECT_THAT(y[0], IsNear(F32({2, 1, 2}, {-1, -1 / 3.f, 1 / 3.f, 1}), 1e-7));
  EXPECT_THAT(y[1], Is(F32({1}, {1})));
  EXPECT_THAT(y[2], Is(F32({1}, {2})));
}

TEST(BatchNormalization, OneDimIsABatchOfOneChannel) {
  const Tensor one = F32({1}, {1}), zero = F32({1}, {0});
  EXPECT_THAT(Eval("BatchNormalization", {F32({2}, {3, 5}), one, one, one, zero},
                   MakeAttrs({{"epsilon", 0.25}})),
              Is(F32({2}, {5, 9})));
}

TEST(GroupNormalization, GroupsHaveTheirOwnStatistics) {
  const Tensor x = RandomTensor({DType::kF64, {2, 6, 3, 2}}, 1);
  const Tensor ones = Tensor::FromSpan<double>({6}, std::vector<double>(6, 1.0));
  const Tensor zeros = Tensor::Zeros(ones.type());
  const Tensor rows = x.Reshaped({6, 12});  // two channels of six elements
  const Tensor row_ones = Tensor::FromSpan<double>({12}, std::vector<double>(12, 1.0));
  EXPECT_LT(MaxError(Eval("GroupNormalization", {x, ones, zeros},
                          MakeAttrs({{"num_groups", int64_t{3}}})),
                     Eval("LayerNormalization", {rows, row_ones}).Reshaped(x.shape())),
            1e-12);
  EXPECT_LT(MaxError(Eval("InstanceNormalization", {x, ones, zeros}),
                     Eval("GroupNormalization", {x, ones, zeros},
                          MakeAttrs({{"num_groups", int64_t{6}}}))),
            1e-12);
}

TEST(InstanceNormalization, ByHand) {
  EXPECT_THAT(Eval("InstanceNormalization",
                   {F32({1, 2, 2}, {-1, 1, 2, 6}), F32({2}, {2, 4}), F32({2}, {1, -1})},
                   MakeAttrs({{"epsilon", 0.0}})),
              Is(F32({1, 2, 2}, {-1, 3, -5, 3})));
}

TEST(RMSNormalization, ByHand) {
  EXPECT_THAT(Eval("RMSNormalization", {F32({2, 2}, {1, 7, 3, 4}), F32({2}, {1, 10})},
                   MakeAttrs({{"epsilon", 0.0}})),
              IsNear(F32({2, 2}, {0.2f, 14, 3 / std::sqrt(12.5f), 40 / std::sqrt(12.5f)}), 1e-7));
}

// Windows of 3: one channel before, one after; of 2: one after.
TEST(LRN, SumsOverNeighbouringChannels) {
  const Tensor x = F32({1, 4, 1}, {1, 2, 3, 4});
  Attrs attrs = MakeAttrs({{"alpha", 3.0}, {"beta", 1.0}, {"bias", 1.0}, {"size", int64_t{3}}});
  EXPECT_THAT(Eval("LRN", {x}, attrs),
              IsNear(F32({1, 4, 1}, {1 / 6.f, 2 / 15.f, 3 / 30.f, 4 / 26.f}), 1e-7));
  attrs.Set("size", int64_t{2});
  attrs.Set("alpha", 2.0);
  EXPECT_THAT(Eval("LRN", {x}, attrs),
              IsNear(F32({1, 4, 1}, {1 / 6.f, 2 / 14.f, 3 / 26.f, 4 / 17.f}), 1e-7));
}

TEST(LpNormalization, RowsHaveNormOne) {
  const Tensor x = F32({2, 2}, {3, 4, -1, 1});
  EXPECT_THAT(Eval("LpNormalization", {x}, MakeAttrs({{"p", int64_t{2}}})),
              IsNear(F32({2, 2}, {0.6f, 0.8f, -std::sqrt(0.5f), std::sqrt(0.5f)}), 1e-7));
  EXPECT_THAT(Eval("LpNormalization", {x}, MakeAttrs({{"p", int64_t{1}}, {"axis", int64_t{0}}})),
              Is(F32({2, 2}, {0.75f, 0.8f, -0.25f, 0.2f})));
  EXPECT_THAT(Eval("LpNormalization", {F32({2}, {0, 0})}), Is(F32({2}, {0, 0})));
}

TEST(MeanVarianceNormalization, OverAxes) {
  const Tensor x = F32({2, 2}, {1, 10, 3, 20});
  EXPECT_THAT(Eval("MeanVarianceNormalization", {x}, MakeAttrs({{"axes", Ints{0}}})),
              IsNear(F32({2, 2}, {-1, -1, 1, 1}), 1e-7));
  EXPECT_THAT(Eval("MeanVarianceNormalization", {x}, MakeAttrs({{"axes", Ints{1}}})),
              IsNear(F32({2, 2}, {-1, 1, -1, 1}), 1e-7));
  EXPECT_THAT(
      Eval("MeanVarianceNormalization", {F32({3}, {5, 5, 5})}, MakeAttrs({{"axes", Ints{0}}})),
      Is(F32({3}, {0, 0, 0})));
}

TEST(Normalizations, ResultTypes) {
  const std::string vectors =
      "input s : f32[3]\ninput b : f32[3]\ninput m : f64[3]\ninput v : f64[3]\n";
  EXPECT_EQ(TypesOf("input x : f16[2,3,4]\n" + vectors +
                    "y, rm, rv = BatchNormalization(x, s, b, m, v) {training_mode = 1}"),
            "y:f16[2,3,4] rm:f64[3] rv:f64[3]");
  EXPECT_EQ(TypesOf("input d : f16[2,3,4]\ninput x : f16[2,3,4]\n" + vectors +
                    "y, ds, db = grad.BatchNormalization(d, x, s)"),
            "y:f16[2,3,4] ds:f32[3] db:f32[3]");
  EXPECT_EQ(TypesOf("input x : f32[2,3,4,5]\n" + vectors +
                    "y = GroupNormalization(x, s, b) {num_groups = 3}"),
            "y:f32[2,3,4,5]");
  EXPECT_EQ(TypesOf("input x : f32[0,3,4,5]\n" + vectors + "y = InstanceNormalization(x, s, b)"),
            "y:f32[0,3,4,5]");
  EXPECT_EQ(
      TypesOf("input x : f32[2,3]\ninput s : f32[2,3]\ny = RMSNormalization(x, s) {axis = 0}"),
      "y:f32[2,3]");
  EXPECT_EQ(TypesOf("input x : bf16[2,3,4]\ny = LRN(x) {size = 3}"), "y:bf16[2,3,4]");
  EXPECT_EQ(TypesOf("input x : f32[2]\ny = LpNormalization(x)"), "y:f32[2]");
  EXPECT_EQ(TypesOf("input x : f32[2]\ny = MeanVarianceNormalization(x) {axes = [-1]}"),
            "y:f32[2]");
}

TEST(Normalizations, Messages) {
  const std::vector<Shape> batch_norm = {{2, 3}, {3}, {3}, {3}, {3}};
  EXPECT_EQ(ErrorOf("BatchNormalization", {}, {{2, 3}, {3}, {2}, {3}, {3}}),
            "BatchNormalization: operands per channel must be [3], but operand 2 is [2]");
  EXPECT_EQ(ErrorOf("BatchNormalization", {}, {{}, {1}, {1}, {1}, {1}}),
            "BatchNormalization: X must have a batch dim, but has rank 0");
  EXPECT_EQ(ErrorOf("BatchNormalization", {}, batch_norm, 3),
            "BatchNormalization: running statistics are results of training mode only");
  EXPECT_EQ(ErrorOf("grad.BatchNormalization", {}, {{2, 3}, {3, 2}, {2}}, 3),
            "grad.BatchNormalization: dY must have the shape of X, [3,2], but has [2,3]");
  EXPECT_EQ(
      ErrorOf("GroupNormalization", MakeAttrs({{"num_groups", int64_t{2}}}), {{2, 3, 4}, {3}, {3}}),
      "GroupNormalization: 3 channels do not divide in 2 groups");
  EXPECT_EQ(
      ErrorOf("GroupNormalization", MakeAttrs({{"num_groups", int64_t{0}}}), {{2, 3, 4}, {3}, {3}}),
      "GroupNormalization: 'num_groups' is 0");
  EXPECT_EQ(ErrorOf("InstanceNormalization", {}, {{2, 3, 4}, {3}, {4}}),
            "InstanceNormalization: 'scale' and bias must be [3], but operand 2 is [4]");
  EXPECT_EQ(ErrorOf("InstanceNormalization", {}, {{2, 3}, {3}, {3}}),
            "InstanceNormalization: X must be [N,C,spatial...], but has rank 2");
  EXPECT_EQ(ErrorOf("RMSNormalization", MakeAttrs({{"axis", int64_t{0}}}), {{2, 3}, {3}}),
            "RMSNormalization: 'scale' must have the shape of the dims from axis 0 on, [2,3], but "
            "has [3]");
  EXPECT_EQ(ErrorOf("LRN", MakeAttrs({{"size", int64_t{0}}}), {{2, 3}}),
            "LRN: 'size' is 0, expected is 1 or more");
  EXPECT_EQ(ErrorOf("LRN", MakeAttrs({{"size", int64_t{1}}}), {{2}}),
            "LRN: X must be [N,C,...], but has rank 1");
  EXPECT_EQ(ErrorOf("grad.LRN", MakeAttrs({{"size", int64_t{1}}}), {{2, 3}, {3, 3}}),
            "grad.LRN: dY must have the shape of X, [3,3], but has [2,3]");
  EXPECT_EQ(ErrorOf("LpNormalization", MakeAttrs({{"p", int64_t{3}}}), {{2}}),
            "LpNormalization: 'p' is 3, known are 1 and 2");
  EXPECT_EQ(ErrorOf("MeanVarianceNormalization", {}, {{2, 3}}),
            "MeanVarianceNormalization: axis 2 is out of range [-2,2)");
}

}  // namespace
}  // namespace millrace
