// What nodes of older and newer opsets become. Nodes are written in our text form, as a file of
// that opset would have them, and printed after the conversion.
#include "ops/onnx/conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "graph/text.h"

namespace millrace {
namespace {

using testing::HasSubstr;

// The values of `from` that nodes read, then its nodes, each converted.
absl::StatusOr<std::string> Convert(std::string_view text, int64_t opset, bool sizes_hold = true) {
  MILLRACE_ASSIGN_OR_RETURN(const Graph from, ParseGraphText(text, "test"));
  TypedBuilder builder("");
  builder.SetSizesHold(sizes_hold);
  std::vector<ValueId> values(from.values.size());
  for (size_t v = 0; v < from.values.size(); ++v) {
    const Value& value = from.values[v];
    if (value.kind == ValueKind::kInput) values[v] = builder.Input(value.name, value.type);
    if (value.kind == ValueKind::kParam) {
      values[v] = builder.Param(value.name, value.type, from.data_of(ValueId(v)));
    }
    if (value.kind == ValueKind::kConstant) {
      values[v] = builder.Constant(value.name, *ConstantTensor(from, ValueId(v)));
    }
  }
  for (const Node& node : from.nodes) {
    OnnxNode onnx;
    onnx.op = node.op;
    onnx.name = node.name;
    onnx.opset = opset;
    onnx.attrs = node.attrs;
    for (const ValueId id : node.inputs) {
      onnx.inputs.push_back(id.valid() ? values[id.index] : ValueId());
    }
    for (const ValueId id : node.outputs) onnx.outputs.push_back(from.value(id).name);
    Conversion c(std::move(onnx), builder);
    MILLRACE_RETURN_IF_ERROR(Convert(c));
    const int outputs = static_cast<int>(c.node.outputs.size());
    const Node& added = builder.AddNode(c.node.op, c.node.inputs, c.node.attrs, "", outputs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      values[node.outputs[i].index] = added.outputs[i];
    }
  }
  std::string printed = ToText(std::move(builder).Build());
  return printed.substr(printed.find('\n') + 1);
}

struct ConversionCase {
  std::string name;
  int64_t opset;
  std::string text;
  std::string expected;  // the last line of the result, or all of it where it has more
};

class ConvertsTo : public testing::TestWithParam<ConversionCase> {};

TEST_P(ConvertsTo, Ours) {
  const absl::StatusOr<std::string> result = Convert(GetParam().text, GetParam().opset);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(*result, testing::EndsWith(GetParam().expected + "\n"));
}

const char kX[] = "input x : f32[2,3,4]\n";

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvertsTo,
    testing::Values(
        ConversionCase{"Squeeze11", 11, StrCat(kX, "y = Squeeze(x) {axes = [0]}"),
                       "const y.constant : i64[1] = inline [0]\nsqueeze = Squeeze(x, y.constant)"},
        ConversionCase{"Squeeze11All", 11, StrCat(kX, "y = Squeeze(x)"), "squeeze = Squeeze(x)"},
        ConversionCase{"Squeeze13", 13, StrCat(kX, "input a : i64[1]\ny = Squeeze(x, a)"),
                       "squeeze = Squeeze(x, a)"},
        ConversionCase{
            "Unsqueeze9", 9, StrCat(kX, "y = Unsqueeze(x) {axes = [0, 2]}"),
            "const y.constant : i64[2] = inline [0, 2]\nunsqueeze = Unsqueeze(x, y.constant)"},
        ConversionCase{"ReduceSum11", 11, StrCat(kX, "y = ReduceSum(x) {axes = [1], keepdims = 0}"),
                       "const y.constant : i64[1] = inline [1]\n"
                       "reducesum = ReduceSum(x, y.constant) {keepdims = 0}"},
        ConversionCase{
            "ReduceMean18", 18,
            StrCat(kX, "const a : i64[1] = inline [1]\ny = ReduceMean(x, a) {keepdims = 0}"),
            "reducemean = ReduceMean(x) {axes = [1], keepdims = 0}"},
        ConversionCase{"ReduceMax18All", 18, StrCat(kX, "y = ReduceMax(x)"),
                       "reducemax = ReduceMax(x)"},
        ConversionCase{"ReduceMax18None", 18,
                       StrCat(kX, "y = ReduceMax(x) {noop_with_empty_axes = 1}"),
                       "identity = Identity(x)"},
        ConversionCase{"ReduceL2None", 18, StrCat(kX, "y = ReduceL2(x) {noop_with_empty_axes = 1}"),
                       "abs = Abs(x)"},
        ConversionCase{"ReduceSumSquareNone", 18,
                       StrCat(kX, "y = ReduceSumSquare(x) {noop_with_empty_axes = 1}"),
                       "mul = Mul(x, x)"},
        ConversionCase{"Slice9", 9,
                       StrCat(kX, "y = Slice(x) {starts = [0], ends = [2], axes = [1]}"),
                       "slice = Slice(x, y.constant, y.constant_1, y.constant_2)"},
        ConversionCase{"Slice9AllAxes", 9, StrCat(kX, "y = Slice(x) {starts = [0], ends = [2]}"),
                       "slice = Slice(x, y.constant, y.constant_1)"},
        ConversionCase{"Split11", 11, StrCat(kX, "a, b = Split(x) {axis = 2, split = [1, 3]}"),
                       "const a.constant : i64[2] = inline [1, 3]\n"
                       "split, split.1 = Split(x, a.constant) {axis = 2}"},
        ConversionCase{"Split18Even", 18, StrCat(kX, "a, b = Split(x) {axis = 2, num_outputs = 2}"),
                       "split, split.1 = Split(x) {axis = 2}"},
        ConversionCase{"Split18LastSmaller", 18,
                       StrCat(kX, "a, b = Split(x) {axis = -2, num_outputs = 2}"),
                       "const a.constant : i64[2] = inline [2, 1]\n"
                       "split, split.1 = Split(x, a.constant) {axis = -2}"},
        ConversionCase{
            "Pad2", 2, "input x : f64[2]\ny = Pad(x) {pads = [1, 1], value = 2.5}",
            "const y.constant : i64[2] = inline [1, 1]\n"
            "const y.constant_1 : f64[] = inline [2.5]\npad = Pad(x, y.constant, y.constant_1)"},
        ConversionCase{"Pad1", 1, "input x : f32[2]\ny = Pad(x) {paddings = [1, 1]}",
                       "pad = Pad(x, y.constant)"},
        ConversionCase{
            "Clip6", 6, StrCat(kX, "y = Clip(x) {min = 0, max = 6.0}"),
            "const y.constant : f32[] = inline [0.0]\n"
            "const y.constant_1 : f32[] = inline [6.0]\nclip = Clip(x, y.constant, y.constant_1)"},
        ConversionCase{"Clip6OnlyMax", 6, StrCat(kX, "y = Clip(x) {max = 6.0}"),
                       "clip = Clip(x, _, y.constant)"},
        ConversionCase{"Concat1", 1, StrCat(kX, "y = Concat(x, x)"),
                       "concat = Concat(x, x) {axis = 1}"},
        ConversionCase{"Reshape1", 1, StrCat(kX, "y = Reshape(x) {shape = [-1]}"),
                       "const y.constant : i64[1] = inline [-1]\nreshape = Reshape(x, y.constant)"},
        ConversionCase{"Tile5", 5,
                       StrCat(kX,
                              "const t : i64[] = inline [3]\nconst a : i64[] = inline [1]\n"
                              "y = Tile(x, t, a)"),
                       "const y.constant : i64[3] = inline [1, 3, 1]\ntile = Tile(x, y.constant)"},
        ConversionCase{"TopK1", 1, StrCat(kX, "a, b = TopK(x) {k = 2, axis = 1}"),
                       "const a.constant : i64[1] = inline [2]\n"
                       "topk, topk.1 = TopK(x, a.constant) {axis = 1}"},
        ConversionCase{
            "Scatter9", 9,
            "input x : f32[3]\ninput i : i64[1]\ninput u : f32[1]\ny = Scatter(x, i, u) {axis = 0}",
            "scatterelements = ScatterElements(x, i, u) {axis = 0}"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Math, ConvertsTo,
    testing::Values(
        ConversionCase{"Cast5", 5, StrCat(kX, "y = Cast(x) {to = \"FLOAT16\"}"),
                       "cast = Cast(x) {to = \"f16\"}"},
        ConversionCase{"Cast9", 9, StrCat(kX, "y = Cast(x) {to = 7}"),
                       "cast = Cast(x) {to = \"i64\"}"},
        ConversionCase{"Cast19", 19, StrCat(kX, "y = Cast(x) {to = 16, saturate = 0}"),
                       "cast = Cast(x) {to = \"bf16\"}"},
        ConversionCase{"Softmax11LastAxis", 11, StrCat(kX, "y = Softmax(x) {axis = 2}"),
                       "softmax = Softmax(x) {axis = -1}"},
        ConversionCase{"Softmax11MinusOne", 11, StrCat(kX, "y = Softmax(x) {axis = -1}"),
                       "softmax = Softmax(x) {axis = -1}"},
        ConversionCase{
            "Softmax11Default", 11, StrCat(kX, "y = Softmax(x)"),
            "y.Flatten = Flatten(x) {axis = 1}\ny.Softmax = Softmax(y.Flatten) {axis = -1}\n"
            "y.Shape = Shape(x)\nreshape = Reshape(y.Softmax, y.Shape)"},
        ConversionCase{
            "Hardmax11", 11, StrCat(kX, "y = Hardmax(x) {axis = 0}"),
            "y.Flatten = Flatten(x) {axis = 0}\ny.Hardmax = Hardmax(y.Flatten) {axis = -1}\n"
            "y.Shape = Shape(x)\nreshape = Reshape(y.Hardmax, y.Shape)"},
        ConversionCase{"Softmax13", 13, StrCat(kX, "y = Softmax(x) {axis = 1}"),
                       "softmax = Softmax(x) {axis = 1}"},
        ConversionCase{"Add6Aligned", 6,
                       StrCat(kX, "input b : f32[3]\ny = Add(x, b) {broadcast = 1, axis = 1}"),
                       "const y.constant : i64[1] = inline [1]\n"
                       "y.Unsqueeze = Unsqueeze(b, y.constant)\nadd = Add(x, y.Unsqueeze)"},
        ConversionCase{"Add6Suffix", 6,
                       StrCat(kX, "input b : f32[4]\ny = Add(x, b) {broadcast = 1}"),
                       "add = Add(x, b)"},
        ConversionCase{"Add6Negative", 6,
                       StrCat(kX, "input b : f32[3,4]\ny = Add(x, b) {broadcast = 1, axis = -2}"),
                       "add = Add(x, b)"},
        ConversionCase{"PRelu6PerChannel", 6, StrCat(kX, "input s : f32[3]\ny = PRelu(x, s)"),
                       "y.Unsqueeze = Unsqueeze(s, y.constant)\nprelu = PRelu(x, y.Unsqueeze)"},
        ConversionCase{"PRelu6One", 6, StrCat(kX, "input s : f32[1]\ny = PRelu(x, s)"),
                       "prelu = PRelu(x, s)"},
        ConversionCase{"Gemm6", 6,
                       "input a : f32[2,3]\ninput b : f32[3,4]\ninput c : f32[4]\n"
                       "y = Gemm(a, b, c) {broadcast = 1}",
                       "gemm = Gemm(a, b, c)"},
        ConversionCase{"ConsumedInputs", 1, StrCat(kX, "y = Relu(x) {consumed_inputs = [0]}"),
                       "relu = Relu(x)"}),
    [](const auto& info) { return info.param.name; });

const char kNorm[] =
    "input x : f32[2,3,4]\ninput s : f32[3]\ninput b : f32[3]\n"
    "param m : f32[3] trainable = splat 0\nparam v : f32[3] trainable = splat 1\n";

INSTANTIATE_TEST_SUITE_P(
    Layers, ConvertsTo,
    testing::Values(
        ConversionCase{
            "BatchNormalization7", 7,
            StrCat(kNorm, "y = BatchNormalization(x, s, b, m, v) {momentum = 0.9, spatial = 1}"),
            "param m : f32[3] = splat 0.0\nparam v : f32[3] = splat 1.0\n"
            "batchnormalization = BatchNormalization(x, s, b, m, v)"},
        ConversionCase{
            "Dropout7", 7, StrCat(kX, "y = Dropout(x) {ratio = 0.25}"),
            "const y.constant : f32[] = inline [0.25]\ndropout = Dropout(x, y.constant)"},
        ConversionCase{"Dropout6Trains", 6, StrCat(kX, "y = Dropout(x)"),
                       "const y.constant_1 : bool[] = inline [true]\n"
                       "dropout = Dropout(x, y.constant, y.constant_1)"},
        ConversionCase{"Dropout6Test", 6, StrCat(kX, "y = Dropout(x) {is_test = 1}"),
                       "dropout = Dropout(x, y.constant)"},
        ConversionCase{
            "Upsample7", 7, StrCat(kX, "y = Upsample(x) {scales = [1.0, 1.0, 2.0]}"),
            "const y.constant_1 : f32[1] = inline [2.0]\n"
            "resize = Resize(x, _, y.constant_1) {axes = [2], coordinate_transformation_mode = "
            "\"asymmetric\", nearest_mode = \"floor\"}"},
        ConversionCase{"Upsample9Linear", 9,
                       StrCat(kX, "input s : f32[3]\ny = Upsample(x, s) {mode = \"linear\"}"),
                       "resize = Resize(x, _, s) {coordinate_transformation_mode = \"asymmetric\", "
                       "mode = \"linear\", nearest_mode = \"floor\"}"},
        ConversionCase{"Resize10", 10, StrCat(kX, "input s : f32[3]\ny = Resize(x, s)"),
                       "resize = Resize(x, _, s) {coordinate_transformation_mode = \"asymmetric\", "
                       "nearest_mode = \"floor\"}"},
        ConversionCase{
            "Dft20", 20,
            "input x : f32[1,8,1]\nconst a : i64[] = inline [1]\ny = DFT(x, _, a) {onesided = 1}",
            "dft = DFT(x) {axis = 1, onesided = 1}"},
        ConversionCase{
            "GroupNormalization18", 18,
            "input x : f32[1,4,2]\ninput s : f32[2]\ninput b : f32[2]\n"
            "y = GroupNormalization(x, s, b) {num_groups = 2}",
            "y.Reshape_1 = Reshape(y.Expand_1, y.constant_5)\n"
            "groupnormalization = GroupNormalization(x, y.Reshape, y.Reshape_1) {num_groups = 2}"},
        ConversionCase{"LpPool1", 1, StrCat(kX, "y = LpPool(x) {kernel_shape = [2], p = 2.0}"),
                       "lppool = LpPool(x) {kernel_shape = [2], p = 2}"},
        ConversionCase{"RoiAlign10", 10,
                       "input x : f32[1,1,4,4]\ninput r : f32[1,4]\ninput b : i64[1]\n"
                       "y = RoiAlign(x, r, b)",
                       "roialign = RoiAlign(x, r, b) {coordinate_transformation_mode = "
                       "\"output_half_pixel\"}"},
        ConversionCase{"Scan9", 9, StrCat(kX, "y = Scan(x) {num_scan_inputs = 1}"),
                       "scan = Scan(x) {num_scan_inputs = 1}"},
        ConversionCase{"GridSample20", 20,
                       "input x : f32[1,1,2,2]\ninput g : f32[1,1,1,2]\n"
                       "y = GridSample(x, g) {mode = \"cubic\"}",
                       "gridsample = GridSample(x, g) {mode = \"bicubic\"}"}),
    [](const auto& info) { return info.param.name; });

std::string ErrorOf(std::string_view text, int64_t opset) {
  const absl::StatusOr<std::string> result = Convert(text, opset);
  return result.ok() ? *result : std::string(StdView(result.status().message()));
}

TEST(Conversion, WhatCannotBeDoneIsSaid) {
  EXPECT_EQ(ErrorOf(StrCat(kX, "input a : i64[1]\ny = ReduceMean(x, a)"), 18),
            "'axes' must be known while planning, but 'a' is not");
  EXPECT_EQ(ErrorOf(StrCat(kX, "a, b = Split(x) {num_outputs = 3}"), 18),
            "attribute 'num_outputs' is 3, but the node has 2 results");
  EXPECT_EQ(ErrorOf(StrCat(kX, "input b : f32[3]\ny = Add(x, b) {broadcast = 1, axis = 3}"), 6),
            "'axis' 3 does not fit operands of rank 3 and 1");
  EXPECT_EQ(ErrorOf(StrCat(kNorm, "y = BatchNormalization(x, s, b, m, v) {spatial = 0}"), 7),
            "'spatial' = 0 (statistics per element) is not supported");
  EXPECT_EQ(ErrorOf(StrCat(kNorm, "y, o = BatchNormalization(x, s, b, m, v)"), 9),
            "training results are not supported before opset 14");
  EXPECT_EQ(ErrorOf(StrCat(kX, "y = Upsample(x)"), 9), "has no 'scales'");
  EXPECT_EQ(ErrorOf(StrCat(kX, "y = Cast(x) {to = 8}"), 9),
            "attribute 'to' is 8 (string), an element type that is not supported");
  EXPECT_EQ(ErrorOf(StrCat(kX, "y = Cast(x) {to = 4294967297}"), 9),
            "attribute 'to' is 4294967297 (undefined), an element type that is not supported");
}

// Parts of unequal size depend on the dim, which a symbol may change later.
TEST(Conversion, SizesThatMayChangeAreNotWrittenDown) {
  const std::string text = StrCat(kX, "a, b = Split(x) {axis = 1, num_outputs = 2}");
  EXPECT_THAT(*Convert(text, 18, /*sizes_hold=*/false),
              HasSubstr("split, split.1 = Split(x) {axis = 1}"));
}

}  // namespace
}  // namespace millrace
