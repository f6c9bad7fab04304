#include "graph/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/half.h"
#include "graph/tensor.h"

namespace millrace {
namespace {

TEST(DTypes, NamesAndSizesRoundTrip) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(SizeOf(DType::kBF16), 2);
  EXPECT_EQ(SizeOf(DType::kU64), 8);
  EXPECT_FALSE(ParseDType("f128").has_value());
  EXPECT_FALSE(IsInteger(DType::kBool));
  EXPECT_TRUE(IsSigned(DType::kI8));
  EXPECT_FALSE(IsSigned(DType::kU8));
}

TEST(Shapes, ElementCountsAreChecked) {
  EXPECT_EQ(CheckedNumElements(Shape{}), 1);
  EXPECT_EQ(CheckedNumElements(Shape{3, 0, 5}), 0);
  EXPECT_EQ(CheckedNumElements(Shape{2, 3, 5}), 30);
  EXPECT_EQ(CheckedNumElements(Shape{-1, 3}), std::nullopt);
  EXPECT_EQ(CheckedNumElements(Shape{int64_t{1} << 30, int64_t{1} << 30}), std::nullopt);
  EXPECT_EQ(CheckedNumElements(Shape{int64_t{1} << 62, 0}), std::nullopt);
  EXPECT_EQ(CheckedByteSize({DType::kF64, Shape{kMaxBytes / 4}}), std::nullopt);
  EXPECT_EQ(CheckedByteSize({DType::kF64, Shape{kMaxBytes / 8}}), kMaxBytes);
}

TEST(Shapes, DenseStridesCountZeroDimsAsOne) {
  EXPECT_EQ(DenseStrides(Shape{2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(DenseStrides(Shape{2, 0, 4}), (Shape{4, 4, 1}));
  EXPECT_EQ(ToString(TensorType{DType::kBF16, Shape{8, 1}}), "bf16[8,1]");
}

TEST(HalfFormats, EveryHalfSurvivesFloatAndBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float f = HalfBitsToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(f))));
    } else {
      ASSERT_EQ(FloatToHalfBits(f), bits);
    }
  }
}

TEST(HalfFormats, RoundToNearestEven) {
  EXPECT_EQ(FloatToHalfBits(1.0f), 0x3c00);
  EXPECT_EQ(FloatToHalfBits(1.0f + 0x1p-11f), 0x3c00);      // tie, to even
  EXPECT_EQ(FloatToHalfBits(1.0f + 3 * 0x1p-11f), 0x3c02);  // tie, to even
  EXPECT_EQ(FloatToHalfBits(1.0f + 0x1.8p-11f), 0x3c01);
  EXPECT_EQ(FloatToHalfBits(65504.0f), 0x7bff);  // largest
  EXPECT_EQ(FloatToHalfBits(65519.99f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65520.0f), 0x7c00);  // infinity
  EXPECT_EQ(FloatToHalfBits(0x1p-24f), 0x0001);  // smallest
  EXPECT_EQ(FloatToHalfBits(0x1p-25f), 0x0000);  // tie, to even
  EXPECT_EQ(FloatToHalfBits(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(FloatToHalfBits(-2.0f), 0xc000);
}

TEST(HalfFormats, BFloat16RoundsAndKeepsNaN) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0f + 0x1p-8f).bits, 0x3f80);      // tie, to even
  EXPECT_EQ(BFloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);  // tie, to even
  EXPECT_TRUE(std::isnan(float(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(float(BFloat16(std::numeric_limits<float>::max()))));
}

TEST(Tensors, SetConvertsAndSaturates) {
  Tensor i8 = Tensor::Zeros({DType::kI8, Shape{3}});
  i8.Set(0, 300);
  i8.Set(1, -300);
  i8.Set(2, std::nan(""));
  EXPECT_EQ(i8.AsInt64(0), 127);
  EXPECT_EQ(i8.AsInt64(1), -128);
  EXPECT_EQ(i8.AsInt64(2), 0);
  Tensor flag = Tensor::Zeros({DType::kBool, Shape{}});
  flag.Set(0, 0.5);
  EXPECT_EQ(flag.AsInt64(0), 1);
  Tensor i64 = Tensor::Zeros({DType::kI64, Shape{}});
  i64.Set(0, 1e30);
  EXPECT_EQ(i64.AsInt64(0), std::numeric_limits<int64_t>::max());
  Tensor half = Tensor::Zeros({DType::kF16, Shape{}});
  half.Set(0, 0.1);
  EXPECT_NEAR(half.AsDouble(0), 0.1, 1e-4);
}

TEST(Tensors, BitEqualTellsSignedZerosApart) {
  EXPECT_TRUE(BitEqual(Tensor::Scalar(std::nanf("")), Tensor::Scalar(std::nanf(""))));
  EXPECT_FALSE(BitEqual(Tensor::Scalar(0.0f), Tensor::Scalar(-0.0f)));
  EXPECT_FALSE(BitEqual(Tensor::Scalar(0.0f), Tensor::Scalar(int32_t{0})));
}

TEST(Tensors, AnImpossibleSizeIsAnError) {
  const auto t = Tensor::Allocate({DType::kF32, Shape{int64_t{1} << 46}});
  EXPECT_EQ(ExitCode(t.status()), 5);
}

}  // namespace
}  // namespace millrace
