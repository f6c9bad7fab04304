// Pools: values worked out by hand, result types, and what is said of wrong ones.
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
using optest::I64;
using optest::Is;
using optest::IsNear;
using optest::MakeAttrs;
using optest::RunAll;
using optest::TypesOf;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

const Tensor kCounting = F32({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});

TEST(AveragePool, PaddingCountsOnlyWhenAskedTo) {
  Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}});
  EXPECT_THAT(Eval("AveragePool", {kCounting}, attrs),
              Is(F32({1, 1, 3, 3}, {1, 1.5f, 2.5f, 2.5f, 3, 4, 5.5f, 6, 7})));
  attrs.Set("count_include_pad", true);
  EXPECT_THAT(Eval("AveragePool", {kCounting}, attrs),
              Is(F32({1, 1, 3, 3}, {0.25f, 0.75f, 1.25f, 1.25f, 3, 4, 2.75f, 6, 7})));
}

TEST(AveragePool, WindowsThatHangOverTheEndCountNothingBeyondThePadding) {
  for (const bool include : {false, true}) {
    const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2, 2}},
                                   {"strides", Ints{2, 2}},
                                   {"ceil_mode", true},
                                   {"count_include_pad", include}});
    EXPECT_THAT(Eval("AveragePool", {kCounting}, attrs), Is(F32({1, 1, 2, 2}, {3, 4.5f, 7.5f, 9})));
  }
}

TEST(AveragePool, DilatedWindows) {
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2}}, {"dilations", Ints{3}}});
  EXPECT_THAT(Eval("AveragePool", {F32({1, 1, 5}, {1, 2, 3, 5, 8})}, attrs),
              Is(F32({1, 1, 2}, {3, 5})));
}

// 4 places of taps 4 apart over 1 element with 4 elements of padding at each side: the padding of
// the second to the fourth window lies around the element.
TEST(AveragePool, WindowWithoutAnyElementGivesZero) {
  const Attrs attrs =
      MakeAttrs({{"kernel_shape", Ints{2}}, {"dilations", Ints{4}}, {"pads", Ints{4, 3}}});
  EXPECT_THAT(Eval("AveragePool", {F32({1, 1, 1}, {7})}, attrs), Is(F32({1, 1, 4}, {7, 0, 0, 0})));
}

TEST(LpPool, NormsOfWindows) {
  const Tensor x = F32({1, 1, 4}, {3, -4, 0, 2});
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2}}});
  EXPECT_THAT(Eval("LpPool", {x}, attrs), Is(F32({1, 1, 3}, {5, 4, 2})));
  Attrs one = attrs;
  one.Set("p", int64_t{1});
  EXPECT_THAT(Eval("LpPool", {x}, one), Is(F32({1, 1, 3}, {7, 4, 2})));
  EXPECT_THAT(Eval("GlobalLpPool", {x}), IsNear(F32({1, 1, 1}, {std::sqrt(29.0f)}), 1e-7));
}

TEST(GlobalMaxPool, OneElementAChannel) {
  EXPECT_THAT(Eval("GlobalMaxPool", {F32({1, 2, 1, 3}, {1, 5, 2, -3, -1, -2})}),
              Is(F32({1, 2, 1, 1}, {5, -1})));
  EXPECT_TRUE(std::isnan(Eval("GlobalMaxPool", {F32({1, 1, 3}, {1, NAN, 2})}).AsDouble(0)));
}

TEST(MaxUnpool, PutsMaximaBackWhereTheyWere) {
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const Tensor x = F32({1, 1, 4, 4}, {1, 2, 5, 4, 0, 3, 1, 1, 9, 0, 2, 2, 1, 1, 7, 3});
  const std::vector<Tensor> pooled = RunAll("MaxPool", {x}, attrs, 2);
  EXPECT_THAT(Eval("MaxUnpool", pooled, attrs),
              Is(F32({1, 1, 4, 4}, {0, 0, 5, 0, 0, 3, 0, 0, 9, 0, 0, 0, 0, 0, 7, 0})));
}

// The example of the ONNX specification.
TEST(MaxUnpool, LargerResultsAreEmptyAtTheEnd) {
  const Attrs attrs = MakeAttrs({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  EXPECT_THAT(Eval("MaxUnpool",
                   {F32({1, 1, 2, 2}, {5, 6, 7, 8}), I64({1, 1, 2, 2}, {5, 7, 13, 15}),
                    I64({4}, {1, 1, 5, 5})},
                   attrs),
              Is(F32({1, 1, 5, 5},
                     {0, 0, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0})));
}

TEST(MaxUnpool, RefusesIndicesOutOfRange) {
  const auto result = optest::RunReference("MaxUnpool", MakeAttrs({{"kernel_shape", Ints{2}}}),
                                           {F32({1, 1, 2}, {1, 2}), I64({1, 1, 2}, {0, 3})});
  EXPECT_EQ(StdView(result.status().message()), "MaxUnpool: index 3 is out of range [0,3)");
}

TEST(Pools, ResultTypes) {
  const std::pair<std::string, std::string> kCases[] = {
      {"input x : f16[1,2,7]\nz = AveragePool(x) {kernel_shape = [2], strides = [2]}",
       "z:f16[1,2,3]"},
      {"input x : f32[1,2,7,9]\nz = LpPool(x) {kernel_shape = [2, 3], pads = [1, 0, 0, 0]}",
       "z:f32[1,2,7,7]"},
      {"input x : f64[0,2,7,9]\nz = GlobalLpPool(x)", "z:f64[0,2,1,1]"},
      {"input x : f32[3,2,7,9,1]\nz = GlobalMaxPool(x)", "z:f32[3,2,1,1,1]"},
      {"input d : f32[1,2,3]\n"
       "z = grad.AveragePool(d) {kernel_shape = [2], strides = [2], input_shape = [7]}",
       "z:f32[1,2,7]"},
      {"input x : f32[1,1,2,2]\ninput i : i64[1,1,2,2]\n"
       "z = MaxUnpool(x, i) {kernel_shape = [3, 2], strides = [2, 2], pads = [0, 1, 1, 0]}",
       "z:f32[1,1,4,3]"},
      {"input x : f32[1,1,2]\ninput i : i64[1,1,2]\nconst s : i64[3] = inline [1, 1, 9]\n"
       "z = MaxUnpool(x, i, s) {kernel_shape = [2], strides = [2]}",
       "z:f32[1,1,9]"},
  };
  for (const auto& [text, expected] : kCases) EXPECT_EQ(TypesOf(text), expected) << text;
}

TEST(Pools, Messages) {
  const Attrs two = MakeAttrs({{"kernel_shape", Ints{2}}});
  EXPECT_EQ(ErrorOf("AveragePool", {}, {{1, 1, 4}}),
            "AveragePool: attribute 'kernel_shape' is missing");
  EXPECT_EQ(ErrorOf("AveragePool", two, {{1, 4}}),
            "AveragePool: X must have 1 to 3 spatial dims, that is rank 3 to 5, but has rank 2");
  EXPECT_EQ(
      ErrorOf("LpPool", MakeAttrs({{"kernel_shape", Ints{2}}, {"pads", Ints{2, 0}}}), {{1, 1, 4}}),
      "LpPool: a pad is as large as the window, which would then hold padding only");
  EXPECT_EQ(
      ErrorOf("LpPool", MakeAttrs({{"kernel_shape", Ints{2}}, {"p", int64_t{0}}}), {{1, 1, 4}}),
      "LpPool: 'p' is 0, expected is 1 or more");
  EXPECT_EQ(ErrorOf("GlobalLpPool", {}, {{1, 1}}),
            "GlobalLpPool: X must be [N,C,spatial...], but has rank 2");
  EXPECT_EQ(ErrorOf("GlobalMaxPool", {}, {{1, 1}}),
            "GlobalMaxPool: X must be [N,C,spatial...], but has rank 2");
  EXPECT_EQ(ErrorOf("GlobalMaxPool", {}, {{1, 1, 3, 0}}),
            "GlobalMaxPool: a channel without elements has no maximum");
  EXPECT_EQ(ErrorOf("grad.AveragePool",
                    MakeAttrs({{"kernel_shape", Ints{2}}, {"input_shape", Ints{4}}}), {{1, 1, 4}}),
            "grad.AveragePool: dY must be [1,1,3] for this pool");
  EXPECT_EQ(ErrorOf("grad.AveragePool",
                    MakeAttrs({{"kernel_shape", Ints{2}}, {"input_shape", Ints{-4}}}), {{1, 1, 4}}),
            "grad.AveragePool: 'input_shape' has an entry of -4");
}

TEST(Pools, MessagesOfMaxUnpool) {
  const auto unpool = [](std::string_view x, std::string_view i, std::string_view attrs) {
    return ErrorsOf(StrCat("input x : f32", x, "\ninput i : i64", i,
                           "\nconst s : i64[3] = inline [1, 2, 9]\nz = MaxUnpool(x, i, s) {", attrs,
                           "}"));
  };
  EXPECT_THAT(unpool("[1,1,2]", "[1,1,3]", "kernel_shape = [2]"),
              HasSubstr("'I' must have the shape of 'X', [1,1,2], but has [1,1,3]"));
  EXPECT_THAT(unpool("[1,1,2]", "[1,1,2]", "kernel_shape = [2, 2]"),
              HasSubstr("'kernel_shape' and 'strides' must have 1 entries, 'pads' 2"));
  EXPECT_THAT(unpool("[1,1,2]", "[1,1,2]", "kernel_shape = [2]"),
              HasSubstr("'output_shape' must have the spatial dims of [1,1,3] or larger ones"));
  EXPECT_THAT(unpool("[1,1,2]", "[1,1,2]", "kernel_shape = [2], pads = [3, 1]"),
              HasSubstr("spatial dim 0 of the result would be -1"));
  EXPECT_THAT(unpool("[1,1,2]", "[1,1,2]", "kernel_shape = [-1]"),
              HasSubstr("a size of -1 is out of range [0,2^31]"));
  EXPECT_THAT(unpool("[1,2]", "[1,2]", "kernel_shape = [2]"),
              HasSubstr("X must be [N,C,spatial...], but has rank 2"));
}

}  // namespace
}  // namespace millrace
