// ConvTranspose: values worked out by hand, its relation to Conv, and what is said of wrong ones.
#include "tests/ops/infer_support.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/reference_support.h"

namespace millrace {
namespace {

using optest::ErrorOf;
using optest::Eval;
using optest::F32;
using optest::Is;
using optest::MakeAttrs;
using optest::RandomTensor;
using optest::TypesOf;
using Ints = std::vector<int64_t>;

const Tensor kLine = F32({1, 1, 3}, {1, 2, 3}), kTaps = F32({1, 1, 2}, {10, 1});

TEST(ConvTranspose, AddsTheScaledKernelAtEachPlace) {
  EXPECT_THAT(Eval("ConvTranspose", {kLine, kTaps}), Is(F32({1, 1, 4}, {10, 21, 32, 3})));
  EXPECT_THAT(Eval("ConvTranspose", {kLine, kTaps}, MakeAttrs({{"strides", Ints{2}}})),
              Is(F32({1, 1, 6}, {10, 1, 20, 2, 30, 3})));
  EXPECT_THAT(Eval("ConvTranspose", {kLine, kTaps}, MakeAttrs({{"dilations", Ints{2}}})),
              Is(F32({1, 1, 5}, {10, 20, 31, 2, 3})));
  EXPECT_THAT(Eval("ConvTranspose", {kLine, kTaps}, MakeAttrs({{"pads", Ints{1, 0}}})),
              Is(F32({1, 1, 3}, {21, 32, 3})));
}

TEST(ConvTranspose, BiasReachesWhatNoWindowDoes) {
  const Attrs attrs = MakeAttrs({{"strides", Ints{3}}, {"output_padding", Ints{2}}});
  EXPECT_THAT(Eval("ConvTranspose", {kLine, kTaps, F32({1}, {0.5f})}, attrs),
              Is(F32({1, 1, 10}, {10.5f, 1.5f, 0.5f, 20.5f, 2.5f, 0.5f, 30.5f, 3.5f, 0.5f, 0.5f})));
}

TEST(ConvTranspose, ResultsAreCutOrFilledToTheShapeAskedFor) {
  const auto shaped = [](int64_t size, std::string_view auto_pad) {
    return Eval("ConvTranspose", {kLine, kTaps},
                MakeAttrs({{"output_shape", Ints{size}}, {"auto_pad", std::string(auto_pad)}}));
  };
  EXPECT_THAT(shaped(3, "NOTSET"), Is(F32({1, 1, 3}, {21, 32, 3})));
  EXPECT_THAT(shaped(3, "SAME_UPPER"), Is(F32({1, 1, 3}, {10, 21, 32})));
  EXPECT_THAT(shaped(2, "NOTSET"), Is(F32({1, 1, 2}, {21, 32})));
  EXPECT_THAT(shaped(6, "NOTSET"), Is(F32({1, 1, 6}, {10, 21, 32, 3, 0, 0})));
  EXPECT_THAT(shaped(0, "NOTSET"), Is(F32({1, 1, 0}, {})));
}

TEST(ConvTranspose, GroupsKeepToThemselves) {
  const Tensor x = F32({1, 2, 2}, {1, 2, 3, 4}), w = F32({2, 2, 1}, {1, 10, 100, 1000});
  EXPECT_THAT(Eval("ConvTranspose", {x, w}, MakeAttrs({{"group", int64_t{2}}})),
              Is(F32({1, 4, 2}, {1, 2, 10, 20, 300, 400, 3000, 4000})));
  EXPECT_THAT(Eval("ConvTranspose", {x, w}), Is(F32({1, 2, 2}, {301, 402, 3010, 4020})));
}

// <Conv(y), x> = <y, ConvTranspose(x)> where both have the same geometry.
TEST(ConvTranspose, IsTheTransposeOfConv) {
  const Attrs attrs =
      MakeAttrs({{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}, {"group", int64_t{2}}});
  const Tensor w = RandomTensor({DType::kF64, {4, 3, 3, 2}}, 1);
  const Tensor y = RandomTensor({DType::kF64, {2, 6, 6, 5}}, 2);
  const Tensor conv = Eval("Conv", {y, w}, attrs);
  const Tensor x = RandomTensor(conv.type(), 3);
  const Tensor transposed = Eval("ConvTranspose", {x, w}, attrs);
  ASSERT_EQ(transposed.type(), y.type());
  double left = 0, right = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) left += conv.AsDouble(i) * x.AsDouble(i);
  for (int64_t i = 0; i < y.num_elements(); ++i) right += transposed.AsDouble(i) * y.AsDouble(i);
  EXPECT_NEAR(left, right, 1e-10);
}

TEST(ConvTranspose, ResultTypes) {
  const std::string operands = "input x : f32[1,4,3,3]\ninput w : f32[4,5,3,3]\n";
  const std::pair<std::string, std::string> kCases[] = {
      {"z = ConvTranspose(x, w)", "z:f32[1,5,5,5]"},
      {"z = ConvTranspose(x, w) {group = 2}", "z:f32[1,10,5,5]"},
      {"z = ConvTranspose(x, w) {strides = [3, 2], pads = [1, 2, 1, 2]}", "z:f32[1,5,7,3]"},
      {"z = ConvTranspose(x, w) {strides = [3, 2], output_padding = [1, 1]}", "z:f32[1,5,10,8]"},
      {"z = ConvTranspose(x, w) {strides = [3, 2], output_shape = [10, 8]}", "z:f32[1,5,10,8]"},
      {"z = ConvTranspose(x, w) {strides = [3, 2], auto_pad = \"SAME_LOWER\"}", "z:f32[1,5,9,6]"},
      {"z = ConvTranspose(x, w) {strides = [3, 2], auto_pad = \"VALID\"}", "z:f32[1,5,9,7]"},
  };
  for (const auto& [node, expected] : kCases) EXPECT_EQ(TypesOf(operands + node), expected) << node;
}

TEST(ConvTranspose, Messages) {
  const std::vector<Shape> shapes = {{1, 4, 3}, {4, 2, 3}};
  EXPECT_EQ(
      ErrorOf("ConvTranspose", {}, {{1, 4}, {4, 2}}),
      "ConvTranspose: 'X' must have 1 to 3 spatial dims, that is rank 3 to 5, but has rank 2");
  EXPECT_EQ(ErrorOf("ConvTranspose", {}, {{1, 4, 3}, {4, 2, 3, 3}}),
            "ConvTranspose: X has rank 3, W has rank 4");
  EXPECT_EQ(ErrorOf("ConvTranspose", {}, {{1, 4, 3}, {2, 4, 3}}),
            "ConvTranspose: X has 4 channels, W takes 2");
  EXPECT_EQ(ErrorOf("ConvTranspose", MakeAttrs({{"group", int64_t{3}}}), shapes),
            "ConvTranspose: 4 channels do not divide in 3 groups");
  EXPECT_EQ(ErrorOf("ConvTranspose", {}, {{1, 4, 3}, {4, 2, 3}, {3}}),
            "ConvTranspose: B must be [2], but is [3]");
  EXPECT_EQ(ErrorOf("ConvTranspose", {}, {{1, 4, 0}, {4, 2, 3}}),
            "ConvTranspose: spatial dim 0 of the input is 0");
  EXPECT_EQ(ErrorOf("ConvTranspose", MakeAttrs({{"output_padding", Ints{1}}}), shapes),
            "ConvTranspose: 'output_padding' of spatial dim 0 is 1, but must be less than its "
            "stride or dilation, 1");
  EXPECT_EQ(ErrorOf("ConvTranspose", MakeAttrs({{"pads", Ints{3, 3}}}), shapes),
            "ConvTranspose: spatial dim 0 of the result would be -1");
  EXPECT_EQ(ErrorOf("ConvTranspose", MakeAttrs({{"output_shape", Ints{3, 3}}}), shapes),
            "ConvTranspose: 'output_shape' has 2 entries, expected are 1");
  EXPECT_EQ(ErrorOf("ConvTranspose", MakeAttrs({{"kernel_shape", Ints{2}}}), shapes),
            "ConvTranspose: 'kernel_shape' differs from the spatial dims of W, [4,2,3]");
}

}  // namespace
}  // namespace millrace
