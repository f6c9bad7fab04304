// Quantized ops: values worked out by hand, result types, and what is said of wrong ones.
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
using optest::MakeAttrs;
using optest::RunAll;
using optest::TypesOf;
using ::testing::HasSubstr;

Tensor U8(const Shape& shape, std::initializer_list<uint8_t> values) {
  return Tensor::Of<uint8_t>(shape, values);
}
Tensor I8(const Shape& shape, std::initializer_list<int8_t> values) {
  return Tensor::Of<int8_t>(shape, values);
}
Tensor I32(const Shape& shape, std::initializer_list<int32_t> values) {
  return Tensor::Of<int32_t>(shape, values);
}

TEST(QuantizeLinear, RoundsTiesToEvenAndSaturates) {
  const Tensor x = F32({8}, {0, 1, 3, 5, -1, 1000, -1000, NAN});
  EXPECT_THAT(Eval("QuantizeLinear", {x, F32({}, {2})}), Is(U8({8}, {0, 0, 2, 2, 0, 255, 0, 0})));
  EXPECT_THAT(Eval("QuantizeLinear", {x, F32({}, {2}), I8({}, {-10})}),
              Is(I8({8}, {-10, -10, -8, -8, -10, 127, -128, -10})));
}

TEST(QuantizeLinear, ScalesAlongAnAxisAndInBlocks) {
  const Tensor x = F32({2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
  const Attrs rows = MakeAttrs({{"axis", int64_t{0}}});
  EXPECT_THAT(Eval("QuantizeLinear", {x, F32({2}, {1, 10}), U8({2}, {0, 1})}, rows),
              Is(U8({2, 4}, {1, 2, 3, 4, 2, 3, 4, 5})));
  const Attrs blocks = MakeAttrs({{"axis", int64_t{-1}}, {"block_size", int64_t{3}}});
  EXPECT_THAT(Eval("QuantizeLinear", {x, F32({2, 2}, {1, 2, 10, 4})}, blocks),
              Is(U8({2, 4}, {1, 2, 3, 2, 1, 2, 3, 10})));
}

TEST(DequantizeLinear, ByHand) {
  EXPECT_THAT(Eval("DequantizeLinear", {U8({3}, {0, 128, 255}), F32({}, {2}), U8({}, {128})}),
              Is(F32({3}, {-256, 0, 254})));
  EXPECT_THAT(Eval("DequantizeLinear", {I32({1, 2}, {-7, 9}), F32({2}, {0.5f, 2})}),
              Is(F32({1, 2}, {-3.5f, 18})));
}

TEST(DynamicQuantizeLinear, FitsTheRangeOfTheData) {
  const auto y = RunAll("DynamicQuantizeLinear", {F32({3}, {-1, 0, 4.1f})}, {}, 3);
  EXPECT_THAT(y[0], Is(U8({3}, {0, 50, 255})));
  EXPECT_THAT(y[1], Is(F32({}, {0.02f})));
  EXPECT_THAT(y[2], Is(U8({}, {50})));
  const auto zeros = RunAll("DynamicQuantizeLinear", {F32({2}, {0, 0})}, {}, 3);
  EXPECT_THAT(zeros[0], Is(U8({2}, {0, 0})));
  EXPECT_THAT(zeros[1], Is(F32({}, {1})));
}

TEST(MatMulInteger, ZeroPointsByRowAndColumn) {
  const Tensor a = U8({2, 2}, {1, 2, 3, 4}), b = I8({2, 2}, {-1, 1, 2, 5});
  EXPECT_THAT(Eval("MatMulInteger", {a, b}), Is(I32({2, 2}, {3, 11, 5, 23})));
  // A - (1, 3) by rows: [0 1; 0 1]; B - (1, 2) by columns: [-2 -1; 1 3].
  EXPECT_THAT(Eval("MatMulInteger", {a, b, U8({2}, {1, 3}), I8({2}, {1, 2})}),
              Is(I32({2, 2}, {1, 3, 1, 3})));
}

TEST(QLinearMatMul, RoundsTheScaledSum) {
  const Tensor a = U8({1, 2}, {11, 12}), b = U8({2, 2}, {3, 0, 4, 1});
  // Sums less zero points: (1 * 2 + 2 * 3, 1 * -1 + 2 * 0) = (8, -1), times 0.5 * (2, 3) / 4.
  EXPECT_THAT(Eval("QLinearMatMul", {a, F32({}, {0.5f}), U8({}, {10}), b, F32({2}, {2, 3}),
                                     U8({}, {1}), F32({}, {4}), I8({}, {100})}),
              Is(I8({1, 2}, {102, 100})));
}

TEST(ConvInteger, PaddingStandsForTheZeroPoint) {
  const Tensor x = U8({1, 1, 3}, {5, 6, 8}), w = I8({1, 1, 2}, {10, 1});
  const Attrs attrs = MakeAttrs({{"pads", std::vector<int64_t>{1, 0}}});
  EXPECT_THAT(Eval("ConvInteger", {x, w, U8({}, {5})}, attrs), Is(I32({1, 1, 3}, {0, 1, 13})));
  EXPECT_THAT(Eval("ConvInteger", {x, w, U8({}, {5}), I8({1}, {1})}, attrs),
              Is(I32({1, 1, 3}, {0, 0, 9})));
}

TEST(QLinearConv, ScalesByChannelAndAddsTheBias) {
  const Tensor x = U8({1, 1, 2}, {12, 14}), w = I8({2, 1, 1}, {3, 3});
  // Sums (6, 12) + (2, -6) = (8, 14), (0, 6), times 0.5 * (1, 4) / 2.
  EXPECT_THAT(Eval("QLinearConv", {x, F32({}, {0.5f}), U8({}, {10}), w, F32({2}, {1, 4}),
                                   I8({}, {0}), F32({}, {2}), U8({}, {7}), I32({2}, {2, -6})}),
              Is(U8({1, 2, 2}, {9, 11, 7, 13})));
}

TEST(Quantized, ResultTypes) {
  EXPECT_EQ(TypesOf("input x : f16[2,3]\ninput s : f32[]\nz = QuantizeLinear(x, s)"), "z:u8[2,3]");
  EXPECT_EQ(TypesOf("input x : f32[2,3]\ninput s : f32[]\n"
                    "z = QuantizeLinear(x, s) {output_dtype = \"i16\"}"),
            "z:i16[2,3]");
  EXPECT_EQ(TypesOf("input x : i16[2,3]\ninput s : bf16[3]\nz = DequantizeLinear(x, s)"),
            "z:bf16[2,3]");
  EXPECT_EQ(TypesOf("input x : f32[2,3]\ny, s, z = DynamicQuantizeLinear(x)"),
            "y:u8[2,3] s:f32[] z:u8[]");
  EXPECT_EQ(TypesOf("input a : u8[5,2,3]\ninput b : i8[3,4]\nz = MatMulInteger(a, b)"),
            "z:i32[5,2,4]");
  EXPECT_EQ(TypesOf("input x : u8[1,2,5]\ninput w : i8[4,2,3]\nz = ConvInteger(x, w)"),
            "z:i32[1,4,3]");
}

TEST(Quantized, Messages) {
  const auto quantize = [](std::string_view scale, std::string_view zero, std::string_view attrs) {
    return ErrorsOf(StrCat("input x : f32[2,3]\ninput s : f32", scale, "\ninput q : i8", zero,
                           "\nz = QuantizeLinear(x, s, q) {", attrs, "}"));
  };
  EXPECT_THAT(quantize("[2]", "[2]", "axis = 1"),
              HasSubstr("the scale must be one element, or [3] along axis 1, but is [2]"));
  EXPECT_THAT(quantize("[3]", "[]", ""),
              HasSubstr("scale and zero point differ in shape: [3] and []"));
  EXPECT_THAT(quantize("[3]", "[3]", "axis = 2"), HasSubstr("axis 2 is out of range [-2,2)"));
  EXPECT_THAT(quantize("[2,3]", "[2,3]", "block_size = 2"),
              HasSubstr("with block_size 2 along axis 1 the scale must be [2,2], but is [2,3]"));
  EXPECT_THAT(quantize("[]", "[]", "output_dtype = \"u8\""),
              HasSubstr("'output_dtype' is u8, the zero point i8"));

  const auto product = [](std::string_view zero) {
    return ErrorsOf(StrCat("input a : u8[2,3]\ninput b : u8[3,4]\ninput z : u8", zero,
                           "\ny = MatMulInteger(a, b, z)"));
  };
  EXPECT_THAT(product("[3]"), HasSubstr("'a_zero_point' of [3] does not fit [2,3]"));
  EXPECT_THAT(ErrorsOf("input a : u8[2,3]\ninput b : u8[4,4]\ny = MatMulInteger(a, b)"),
              HasSubstr("inner sizes differ: 3 and 4"));
  EXPECT_THAT(ErrorsOf("input x : u8[1,2,5]\ninput w : u8[4,2,3]\ninput z : u8[2]\n"
                       "y = ConvInteger(x, w, _, z)"),
              HasSubstr("'w_zero_point' of [2] does not fit [4,2,3]"));
  EXPECT_EQ(ErrorOf("MatMulInteger", {}, {{2, 3}, {3, 4}}),
            "MatMulInteger: operand 'A' has an element type the op does not take");
}

}  // namespace
}  // namespace millrace
