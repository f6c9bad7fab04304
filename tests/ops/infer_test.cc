// Type inference: the types each op gives, and what is said of nodes that are wrong. Graphs are
// written in the text form; messages are compared whole.
#include "ops/infer.h"

#include "gmock/gmock.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "ops/op_def.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

using optest::MakeAttrs;
using ::testing::HasSubstr;

Graph Parse(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text, "g.txt");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

// The types of results after inference, "y:f32[2] z:?", in the order of values.
std::string ResultTypes(const Graph& graph) {
  std::string types;
  for (const Value& v : graph.values) {
    if (v.kind != ValueKind::kResult) continue;
    StrAppend(&types, types.empty() ? "" : " ", v.name, ":", v.typed ? ToString(v.type) : "?",
              v.bounded ? " bounded" : "");
  }
  return types;
}

std::string TypesOf(std::string_view text) {
  Graph graph = Parse(text);
  const absl::Status status = InferTypes(graph);
  return status.ok() ? ResultTypes(graph) : std::string(StdView(status.message()));
}

// The diagnostics of a graph that is wrong, without the file's name, which is "g.txt" throughout.
std::string ErrorsOf(std::string_view text) {
  Graph graph = Parse(text);
  std::string message(StdView(InferTypes(graph).message()));
  for (size_t at; (at = message.find("g.txt:")) != std::string::npos;) message.erase(at, 6);
  return message;
}

// --- Result types
// ---------------------------------------------------------------------------------

struct TypeCase {
  std::string text, expected;
};

TEST(Infer, ResultTypesByOp) {
  const TypeCase kCases[] = {
      {"input x : f32[2,1]\ninput y : f32[3]\nz = Add(x, y)", "z:f32[2,3]"},
      {"input x : i8[]\nz = Mul(x, x)", "z:i8[]"},
      {"input x : f32[0,4]\ninput y : f32[1,4]\nz = Div(x, y)", "z:f32[0,4]"},
      {"input x : f32[2]\ninput y : f32[1]\nz = Greater(x, y)", "z:bool[2]"},
      {"input c : bool[2,1]\ninput x : f16[]\ninput y : f16[3]\nz = Where(c, x, y)", "z:f16[2,3]"},
      {"input x : f64[2]\nz = Gelu(x) {approximate = \"tanh\"}", "z:f64[2]"},
      {"input x : f32[2]\nz = Cast(x) {to = \"u8\"}", "z:u8[2]"},

      {"input x : f32[2,3]\ninput y : f32[3,4]\nz = MatMul(x, y)", "z:f32[2,4]"},
      {"input x : f32[3]\ninput y : f32[3]\nz = MatMul(x, y)", "z:f32[]"},
      {"input x : f32[5,1,2,3]\ninput y : f32[7,3,4]\nz = MatMul(x, y)", "z:f32[5,7,2,4]"},
      {"input x : f32[7,2,3]\ninput y : f32[3]\nz = MatMul(x, y)", "z:f32[7,2]"},
      {"input x : f32[3,2]\ninput y : f32[4,3]\nz = Gemm(x, y, _) {transA = 1, transB = true}",
       "z:f32[2,4]"},

      {"input x : f32[8,3,32,32]\ninput w : f32[16,3,5,5]\ninput b : f32[16]\n"
       "z = Conv(x, w, b) {strides = [2, 2], pads = [2, 2, 2, 2]}",
       "z:f32[8,16,16,16]"},
      {"input x : f32[8,4,10]\ninput w : f32[6,2,3]\nz = Conv(x, w) {group = 2, dilations = [2]}",
       "z:f32[8,6,6]"},
      {"input x : f32[1,1,9,9]\ninput w : f32[1,1,4,4]\n"
       "z = Conv(x, w) {auto_pad = \"SAME_UPPER\", strides = [2, 3]}",
       "z:f32[1,1,5,3]"},
      {"input x : f32[0,1,3,3,3]\ninput w : f32[1,1,3,3,3]\nz = Conv(x, w)", "z:f32[0,1,1,1,1]"},
      {"input x : f32[1,2,7,7]\nz, i = MaxPool(x) {kernel_shape = [2, 2], strides = [2, 2]}",
       "z:f32[1,2,3,3] i:i64[1,2,3,3]"},
      {"input x : f32[1,2,7]\nz = MaxPool(x) {kernel_shape = [2], strides = [2], ceil_mode = 1}",
       "z:f32[1,2,4]"},
      {"input x : f32[2,3,7,5]\nz = GlobalAveragePool(x)", "z:f32[2,3,1,1]"},
      {"input d : f32[1,6,6]\ninput w : f32[6,2,3]\n"
       "z = grad.ConvInput(d, w) {group = 2, dilations = [2], input_shape = [10]}",
       "z:f32[1,4,10]"},
      {"input x : f32[1,4,10]\ninput d : f32[1,6,6]\n"
       "z = grad.ConvWeight(x, d) {group = 2, dilations = [2], kernel_shape = [3]}",
       "z:f32[6,2,3]"},

      {"input x : f32[2,3,4]\nconst s : i64[2] = inline [0, -1]\nz = Reshape(x, s)", "z:f32[2,12]"},
      {"input x : f32[0,3]\nconst s : i64[2] = inline [0, 10]\nz = Reshape(x, s)", "z:f32[0,10]"},
      {"input x : f32[0,3]\nconst s : i64[2] = inline [5, 0]\nz = Reshape(x, s) {allowzero = 1}",
       "z:f32[5,0]"},
      {"input x : f32[1,1]\nconst s : i64[0] = inline []\nz = Reshape(x, s)", "z:f32[]"},
      {"input x : f32[2,3,4]\nz = Flatten(x)", "z:f32[2,12]"},
      {"input x : f32[2,3,4]\nz = Flatten(x) {axis = 3}", "z:f32[24,1]"},
      {"input x : f32[]\nz = Flatten(x) {axis = 0}", "z:f32[1,1]"},
      {"input x : f32[2,3,4]\nz = Transpose(x)", "z:f32[4,3,2]"},
      {"input x : f32[2,3,4]\nz = Transpose(x) {perm = [1, 0, 2]}", "z:f32[3,2,4]"},
      {"input x : f32[3,1]\nconst s : i64[3] = inline [2, 1, 4]\nz = Expand(x, s)", "z:f32[2,3,4]"},
      {"input x : f32[2,3]\ninput y : f32[2,5]\nz = Concat(x, y, x) {axis = -1}", "z:f32[2,11]"},
      {"input x : f32[6,3]\na, _, c = Split(x)", "a:f32[2,3] c:f32[2,3]"},
      {"input x : f32[6,3]\nconst s : i64[2] = inline [0, 3]\na, b = Split(x, s) {axis = 1}",
       "a:f32[6,0] b:f32[6,3]"},
      {"input x : f32[5,3]\ninput i : i32[2,4]\nz = Gather(x, i)", "z:f32[2,4,3]"},
      {"input x : f32[5,3]\ninput i : i64[]\nz = Gather(x, i) {axis = -1}", "z:f32[5]"},
      {"input d : f32[2,4,3]\ninput i : i64[2,4]\nz = grad.Gather(d, i) {size = 5}", "z:f32[5,3]"},

      {"input x : f32[2,3,4]\nconst a : i64[1] = inline [-1]\nz = ReduceSum(x, a)", "z:f32[2,3,1]"},
      {"input x : f32[2,3,4]\nz = ReduceSum(x) {keepdims = 0}", "z:f32[]"},
      {"input x : f32[2,3]\nz = ReduceSum(x) {noop_with_empty_axes = 1}", "z:f32[2,3]"},
      {"input x : f32[2,3,4]\nz = ReduceMean(x) {axes = [0, 2], keepdims = 0}", "z:f32[3]"},
      {"input x : f32[2,3]\nz = Softmax(x)", "z:f32[2,3]"},
      {"input x : bf16[2,3,4]\ninput s : bf16[3,4]\ny, m, d = LayerNormalization(x, s) {axis = 1}",
       "y:bf16[2,3,4] m:f32[2,1,1] d:f32[2,1,1]"},
      {"input x : f64[2,4]\ninput s : f64[4]\nn: _, m = LayerNormalization(x, s)", "m:f64[2,1]"},
      {"input x : f32[2,3]\nz = ArgMax(x) {axis = 1, keepdims = 0}", "z:i64[2]"},
      {"input x : f32[2,3]\nz = NonZero(x)", "z:i64[2,6] bounded"},
      {"input x : f32[2]\nz = comm.AllReduce(x) {axis = \"data\", op = \"max\"}", "z:f32[2]"},
  };
  for (const TypeCase& c : kCases) EXPECT_EQ(TypesOf(c.text), c.expected) << c.text;
}

// --- Errors
// ---------------------------------------------------------------------------------------

struct OpError {
  std::string op;
  Attrs attrs;
  std::vector<Shape> inputs;
  std::string expected;
  int num_outputs = 1;
};

using Ints = std::vector<int64_t>;

TEST(Infer, MessagesByOp) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const OpError kCases[] = {
      {"Add",
       {},
       {{2, 3}, {2, 4}},
       "Add: shapes [2,3] and [2,4] do not broadcast: dims 3 and 4 differ and neither is 1"},
      {"Add",
       {},
       {{1 << 24, 1}, {1, 1 << 24}},
       "Add: result 'C' of f32[16777216,16777216] is larger than 2^48 bytes"},
      {"MatMul", {}, {{2, 4}, {5, 3}}, "MatMul: inner sizes differ: 4 and 5"},
      {"MatMul", {}, {{}, {5, 3}}, "MatMul: operands must have at least one dim"},
      {"MatMul", {}, {{2, 1, 4}, {3, 4, 5}, {1}}, "MatMul: wrong number of inputs"},
      {"MatMul",
       {},
       {{2, 1, 4}, {3, 4, 5}},
       "MatMul: shapes [2] and [3] do not broadcast: dims 2 and 3 differ and neither is 1"},
      {"Gemm", {}, {{2, 3, 4}, {4, 5}}, "Gemm: A and B must have rank 2"},
      {"Gemm", {}, {{2, 3}, {3, 5}, {3, 2, 5}}, "Gemm: C, [3,2,5], does not broadcast to [2,5]"},

      {"Conv",
       {},
       {{2, 3}, {4, 3}},
       "Conv: 'X' must have 1 to 3 spatial dims, that is rank 3 to 5, but has rank 2"},
      {"Conv", {}, {{1, 3, 8, 8}, {4, 3, 3, 3, 3}}, "Conv: X has rank 4, W has rank 5"},
      {"Conv", {}, {{1, 3, 8}, {4, 2, 3}}, "Conv: X has 3 channels, W takes 2 in each of 1 group"},
      {"Conv", MakeAttrs({{"group", int64_t{0}}}), {{1, 3, 8}, {4, 3, 3}}, "Conv: 'group' is 0"},
      {"Conv",
       MakeAttrs({{"group", int64_t{3}}}),
       {{1, 3, 8}, {4, 1, 3}},
       "Conv: 4 output channels do not divide in 3 groups"},
      {"Conv",
       {},
       {{1, 3, 2}, {4, 3, 3}},
       "Conv: a window of 3 does not fit in spatial dim 0 of 2, padded to 2"},
      {"Conv",
       {},
       {{1, 3, 0}, {4, 3, 3}},
       "Conv: a window of 3 does not fit in spatial dim 0 of 0, padded to 0"},
      {"Conv", {}, {{1, 3, 8}, {4, 3, 0}}, "Conv: the kernel has a spatial dim of 0"},
      {"Conv", {}, {{1, 3, 8}, {4, 3, 3}, {5}}, "Conv: B must be [4], but is [5]"},
      {"Conv",
       MakeAttrs({{"strides", Ints{0}}}),
       {{1, 3, 8}, {4, 3, 3}},
       "Conv: 'strides' has an entry of 0, allowed are 1 to 2^31"},
      {"Conv",
       MakeAttrs({{"pads", Ints{-1, 0}}}),
       {{1, 3, 8}, {4, 3, 3}},
       "Conv: 'pads' has an entry of -1, allowed are 0 to 2^31"},
      {"Conv",
       MakeAttrs({{"dilations", Ints{INT64_MAX}}}),
       {{1, 3, 8}, {4, 3, 3}},
       "Conv: 'dilations' has an entry of 9223372036854775807, allowed are 1 to 2^31"},
      {"Conv",
       MakeAttrs({{"pads", Ints{1}}}),
       {{1, 3, 8}, {4, 3, 3}},
       "Conv: 'pads' has 1 entries, expected are 2"},
      {"Conv",
       MakeAttrs({{"pads", Ints{1, 1}}, {"auto_pad", "SAME_UPPER"}}),
       {{1, 3, 8}, {4, 3, 3}},
       "Conv: 'pads' and auto_pad=SAME_UPPER exclude each other"},
      {"Conv",
       MakeAttrs({{"kernel_shape", Ints{5}}}),
       {{1, 3, 8}, {4, 3, 3}},
       "Conv: 'kernel_shape' differs from the spatial dims of W, [4,3,3]"},
      {"grad.ConvInput",
       MakeAttrs({{"input_shape", Ints{9}}}),
       {{1, 4, 6}, {4, 3, 3}},
       "grad.ConvInput: dY must be [1,4,7] for this convolution"},
      {"grad.ConvWeight",
       MakeAttrs({{"kernel_shape", Ints{3, 3}}}),
       {{1, 3, 8}, {1, 4, 6}},
       "grad.ConvWeight: 'kernel_shape' must be the 1 spatial dims"},
      {"MaxPool",
       MakeAttrs({{"kernel_shape", Ints{2, 2}}}),
       {{1, 1, 8}},
       "MaxPool: the kernel has 2 spatial dims, the input has 1"},
      {"MaxPool",
       MakeAttrs({{"kernel_shape", Ints{2}}, {"pads", Ints{2, 0}}}),
       {{1, 1, 8}},
       "MaxPool: a pad is as large as the window, which would then hold padding only"},
      {"MaxPool", {}, {{1, 1, 8}}, "MaxPool: attribute 'kernel_shape' is missing"},
      {"GlobalAveragePool",
       {},
       {{2, 3}},
       "GlobalAveragePool: X must be [N,C,spatial...], but has rank 2"},

      {"Flatten",
       MakeAttrs({{"axis", int64_t{3}}}),
       {{2, 3}},
       "Flatten: axis 3 is out of range [-2,2]"},
      {"Flatten", {}, {{0, kHuge, kHuge}}, "Flatten: a dim of the result would be too large"},
      {"Transpose",
       MakeAttrs({{"perm", Ints{0}}}),
       {{2, 3}},
       "Transpose: 'perm' has 1 entries for rank 2"},
      {"Transpose",
       MakeAttrs({{"perm", Ints{0, 0}}}),
       {{2, 3}},
       "Transpose: 'perm' is no permutation of 0 to 1: 0 comes twice"},
      {"Transpose",
       MakeAttrs({{"perm", Ints{0, -1}}}),
       {{2, 3}},
       "Transpose: 'perm' is no permutation of 0 to 1: -1 is out of range"},
      {"Concat",
       MakeAttrs({{"axis", int64_t{1}}}),
       {{2, 3}, {3, 3}},
       "Concat: operand 1 is [3,3], which differs from [2,3] beside axis 1"},
      {"Concat",
       MakeAttrs({{"axis", int64_t{0}}}),
       {{2, 3}, {2}},
       "Concat: operand 1 is [2], which differs from [2,3] beside axis 0"},
      {"Concat", MakeAttrs({{"axis", int64_t{0}}}), {{}}, "Concat: axis 0 is out of range [0,0)"},
      {"Split",
       {},
       {{5}},
       "Split: a dim of 5 does not split in 2 equal parts; 'split' may give the sizes",
       2},
      {"Softmax",
       MakeAttrs({{"axis", int64_t{-3}}}),
       {{2, 3}},
       "Softmax: axis -3 is out of range [-2,2)"},
      {"Softmax", {}, {{}}, "Softmax: axis -1 is out of range [0,0)"},
      {"ReduceMean",
       MakeAttrs({{"axes", Ints{0, -2}}}),
       {{2, 3}},
       "ReduceMean: axis -2 is given twice"},
      {"LayerNormalization",
       {},
       {{2, 3}, {2}},
       "LayerNormalization: 'Scale' must have the shape of the dims from axis 1 on, [3], but has "
       "[2]"},
      {"LayerNormalization",
       MakeAttrs({{"stash_type", int64_t{7}}}),
       {{2, 3}, {3}},
       "LayerNormalization: 'stash_type' is 7, known are 1 (f32) and 11 (f64)"},
      {"ArgMax", {}, {{0, 3}}, "ArgMax: axis 0 is empty, it has no largest"},
      {"Relu",
       {},
       {{kHuge, kHuge}},
       "Relu: an input of f32[1099511627776,1099511627776] is too large"},
      {"comm.AllReduce",
       MakeAttrs({{"axis", std::vector<std::string>{}}}),
       {{2}},
       "comm.AllReduce: attribute 'axis' names no mesh axis"},
  };
  for (const OpError& c : kCases) {
    NodeQuery query{c.op, c.attrs, {}, {}};
    for (const Shape& shape : c.inputs) query.inputs.push_back(TensorType{DType::kF32, shape});
    query.outputs.resize(c.num_outputs, TensorType{});
    const auto types = InferOutputs(query, {});
    ASSERT_FALSE(types.ok()) << c.expected;
    EXPECT_EQ(StdView(types.status().message()), c.expected);
    EXPECT_EQ(ExitCode(types.status()), 3);
  }
}

// Operands that must be known while planning.
TEST(Infer, MessagesAboutConstantOperands) {
  const auto reshape = [](std::string_view shape) {
    return ErrorsOf(StrCat("input x : f32[2,3]\nconst s : ", shape, "\nz = Reshape(x, s)"));
  };
  EXPECT_THAT(reshape("i64[2] = inline [0, 10]"),
              HasSubstr("Reshape 'z': [2,3] has 6 elements, [2,10] has 20; found data: f32[2,3] "
                        "from input 'x', shape: i64[2] from constant 's'"));
  EXPECT_THAT(reshape("i64[2] = inline [4, -1]"),
              HasSubstr("6 elements of [2,3] do not divide by the 4 of the other dims"));
  EXPECT_THAT(reshape("i64[2] = inline [-1, -1]"), HasSubstr("the new shape has two dims of -1"));
  EXPECT_THAT(reshape("i64[1] = inline [-2]"), HasSubstr("dim 0 of the new shape is -2"));
  EXPECT_THAT(reshape("i64[3] = inline [2, 3, 0]"),
              HasSubstr("dim 2 of the new shape is 0 (as in the input), but [2,3] has no dim 2"));
  EXPECT_THAT(reshape("i64[2] = inline [4611686018427387904, 4611686018427387904]"),
              HasSubstr("the new shape has too many elements"));
  EXPECT_THAT(reshape("i64[9] = splat 1"),
              HasSubstr("'shape' has 9 elements, at most 8 make sense"));
  EXPECT_THAT(reshape("i64[1099511627776] = splat 1"),
              HasSubstr("'shape' has 1099511627776 elements, at most 8 make sense"));
  EXPECT_THAT(reshape("i64[] = splat 6"), HasSubstr("'shape' must have rank 1, but has rank 0"));

  EXPECT_THAT(ErrorsOf("input x : f32[0,3]\nconst s : i64[2] = inline [0, -1]\nz = Reshape(x, s)"),
              HasSubstr("-1 beside a dim of 0 may mean anything"));
  EXPECT_THAT(ErrorsOf("input x : f32[2]\ninput s : i64[1]\nz = Reshape(x, s)"),
              HasSubstr("'shape' must be a constant with inline data"));
  EXPECT_THAT(ErrorsOf("input x : f32[6]\nconst s : i64[2] = inline [4, 3]\na, b = Split(x, s)"),
              HasSubstr("size 3 of part 1 is not in [0,2], what is left"));
  EXPECT_THAT(ErrorsOf("input x : f32[6]\nconst s : i64[2] = inline [1, 3]\na, b = Split(x, s)"),
              HasSubstr("the sizes leave 2 of axis 0 over"));
  EXPECT_THAT(ErrorsOf("input x : f32[6]\nconst s : i64[1] = inline [6]\na, b = Split(x, s)"),
              HasSubstr("'split' has 1 sizes for 2 results"));
  EXPECT_THAT(ErrorsOf("input x : f32[5]\nconst i : i64[2] = inline [0, -6]\nz = Gather(x, i)"),
              HasSubstr("index -6 (element 1 of 'indices') is out of range [-5,5)"));
  EXPECT_THAT(ErrorsOf("input x : f32[2,2,2,2,2]\ninput i : i64[1,1,1,1,1]\nz = Gather(x, i)"),
              HasSubstr("the result would have 9 dims, at most 8 are possible"));
}

TEST(Infer, UnknownOpsNameTheNearest) {
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Rellu(x)"),
            "2:1: y/op: Rellu 'y': unknown op 'Rellu'; did you mean 'Relu'?");
}

TEST(Infer, AttributesAreCheckedAgainstTheSchema) {
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Softmax(x) {axes = 1}"),
            "2:1: y/attrs/axes: Softmax 'y': unknown attribute 'axes'; expected one of axis; did "
            "you mean 'axis'?");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Relu(x) {alpha = 1}"),
            "2:1: y/attrs/alpha: Relu 'y': unknown attribute 'alpha'; expected no attributes");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Softmax(x) {axis = 1.5}"),
            "2:1: y/attrs/axis: Softmax 'y': attribute 'axis' has the wrong kind; expected int, "
            "found float");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Gelu(x) {approximate = \"tan\"}"),
            "2:1: y/attrs/approximate: Gelu 'y': attribute 'approximate' has no such choice; "
            "expected one of 'none', 'tanh', found 'tan'; did you mean 'tanh'?");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Cast(x)"),
            "2:1: y/attrs: Cast 'y': attribute 'to' is missing; expected 'to': string");
}

TEST(Infer, AttributesAreNormalizedToTheSchema) {
  Graph graph = Parse(
      "input x : f32[2,2]\n"
      "y = Gemm(x, x) {alpha = 2, transA = 1}\n"
      "z = comm.AllReduce(y) {axis = \"data\"}");
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(graph.nodes[0].attrs, MakeAttrs({{"alpha", 2.0}, {"transA", true}}));
  EXPECT_EQ(graph.nodes[1].attrs, MakeAttrs({{"axis", std::vector<std::string>{"data"}}}));
}

TEST(Infer, OperandsAreCheckedAgainstTheSignature) {
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Add(x)"),
            "2:1: y/inputs: Add 'y': wrong number of inputs; expected 2 inputs, found 1");
  EXPECT_EQ(ErrorsOf("input x : f32[2,2]\ny = Gemm(x, _, x)"),
            "2:1: y/inputs/1: Gemm 'y': operand 'B' may not be omitted");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\na, b = Relu(x)"),
            "2:1: a/outputs: Relu 'a': wrong number of outputs; expected 1 output, found 2");
  EXPECT_EQ(ErrorsOf("input x : i32[2]\ny = Exp(x)"),
            "2:1: y/inputs/0: Exp 'y': operand 'X' has an element type the op does not take; "
            "expected f16, bf16, f32, f64, found X: i32[2] from input 'x'");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\nparam w : f64[2] = init zeros\ny = Relu(x)\nz = Mul(y, w)"),
            "4:1: z/inputs/1: Mul 'z': operands 'A' and 'B' have different element types; "
            "expected f32, found A: f32[2] from Relu 'y', B: f64[2] from param 'w'; a Cast makes "
            "them agree");
}

TEST(Infer, ShapeErrorsShowOperandsAndWhereTheyComeFrom) {
  EXPECT_EQ(ErrorsOf("input x : f32[2,4]\na, b = Split(x) {axis = 1}\n"
                     "param w : f32[5,3] = init zeros\nfc: h = MatMul(b, w)"),
            "4:1: fc: MatMul 'fc': inner sizes differ: 2 and 5; found A: f32[2,2] from output 1 of "
            "Split 'a', B: f32[5,3] from param 'w'");
}

TEST(Infer, FileIndexGivesAJsonPointer) {
  Graph graph = Parse("input x : f32[2]\ny = Softmax(x) {axes = 1}");
  graph.nodes[0].file_index = 7;
  EXPECT_THAT(std::string(StdView(InferTypes(graph).message())),
              HasSubstr("/nodes/7/attrs/axes: Softmax 'y'"));
}

TEST(Infer, OneMistakeIsToldOnce) {
  Graph graph = Parse(
      "input x : f32[2]\n"
      "a = Nope(x)\n"
      "b = Relu(a)\n"
      "c = MatMul(b, x)\n"
      "d = Relu(x)");
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  EXPECT_EQ(diagnostics.total(), 1);
  EXPECT_EQ(ResultTypes(graph), "a:? b:? c:? d:f32[2]");
}

// A node that reads an untyped value is still checked as far as it can be.
TEST(Infer, UntypedOperandsHideNoOtherMistake) {
  Graph graph = Parse("input x : f32[2]\na = Nope(x)\nb = Softmax(a) {axes = 1}\nc = Add(a)");
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  EXPECT_EQ(diagnostics.total(), 3);
}

TEST(Infer, AllMistakesAtOnceButNoMoreThanTwenty) {
  std::string text = "input x : f32[2]\n";
  for (int i = 0; i < 50; ++i) StrAppend(&text, "y", i, " = Nope(x)\n");
  Graph graph = Parse(text);
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  EXPECT_EQ(diagnostics.total(), 50);
  EXPECT_EQ(diagnostics.shown().size(), 20u);
}

TEST(Infer, DeclaredResultTypesMustBeRight) {
  EXPECT_EQ(TypesOf("input x : f32[2]\ny : f32[2] = Relu(x)"), "y:f32[2]");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny : f32[3] = Relu(x)"),
            "2:1: y/outputs/0: Relu 'y': result 'y' has another type than declared; expected "
            "f32[2], found f32[3]");
}

TEST(Infer, GoesOnFromDeclaredTypesOfUnknownOps) {
  Graph graph = Parse("input x : f32[2]\ny : f32[3] = Nope(x)\nz = Relu(y)");
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  EXPECT_EQ(diagnostics.total(), 1);
  EXPECT_EQ(ResultTypes(graph), "y:f32[3] z:f32[3]");
}

TEST(Infer, AgainGivesTheSame) {
  Graph graph = Parse("input x : f32[2,3]\nn = NonZero(x)\ny = Gemm(x, x) {transB = 1, alpha = 3}");
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  const std::string once = ToText(graph);
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(ToText(graph), once);
}

// --- Sizes known only at run time
// -----------------------------------------------------------------

TEST(Infer, BoundsSpreadToWhatIsComputedFromThem) {
  EXPECT_EQ(TypesOf("input x : f32[2,3]\n"
                    "n = NonZero(x)\n"
                    "t = Transpose(n)\n"
                    "s = ReduceSum(t) {keepdims = 0}\n"
                    "y = Relu(x)"),
            "n:i64[2,6] bounded t:i64[6,2] bounded s:i64[] y:f32[2,3]");
}

TEST(InferOutputs, GivesTrueTypesFromTrueShapes) {
  NodeQuery query{"Transpose", {}, {TensorType{DType::kI64, {2, 5}}}, {TensorType{}}};
  const auto types = InferOutputs(query, {});
  ASSERT_TRUE(types.ok());
  EXPECT_EQ(ToString((*types)[0]), "i64[5,2]");
}

TEST(InferOutputs, ReadsConstants) {
  const NodeQuery query{
      "Reshape", {}, {TensorType{DType::kF32, {6}}, TensorType{DType::kI64, {2}}}, {TensorType{}}};
  const std::vector<Tensor> constants = {Tensor(), Tensor::Of<int64_t>({2}, {2, -1})};
  const auto types = InferOutputs(query, constants);
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(ToString((*types)[0]), "f32[2,3]");
  EXPECT_FALSE(InferOutputs(query, {}).ok());
}

// --- Nested graphs
// --------------------------------------------------------------------------------

std::string IfGraph(std::string_view then_body, std::string_view else_body) {
  return StrCat("input c : bool[]\ninput x : f32[2,3]\n",
                "branch: y = If(c, x) graph then_branch {\n  input a : f32[2,3]\n", then_body,
                "\n  output r\n} graph else_branch {\n  input b : f32[2,3]\n", else_body,
                "\n  output r\n}\nz = Relu(y)\noutput z");
}

TEST(Infer, BodiesOfIfGiveItsTypes) {
  Graph graph = Parse(IfGraph("  r = Relu(a)", "  r = Exp(b)"));
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(ResultTypes(graph), "y:f32[2,3] z:f32[2,3]");
  EXPECT_EQ(ResultTypes(graph.nodes[0].subgraphs[0].graph), "r:f32[2,3]");
}

TEST(Infer, BodiesOfIfMustAgree) {
  EXPECT_THAT(ErrorsOf(IfGraph("  r = Relu(a)", "  r = Transpose(b)")),
              HasSubstr("branch: If 'branch': result 0 is f32[2,3] ('r') in then_branch and "
                        "f32[3,2] ('r') in else_branch; found cond: bool[] from input 'c', "
                        "captures[0]: f32[2,3] from input 'x'"));
}

TEST(Infer, MistakesInBodiesHaveTheirOwnPlace) {
  Graph graph = Parse(IfGraph("  r = Relu(a)", "  r = Nope(b)"));
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  ASSERT_EQ(diagnostics.total(), 1);
  EXPECT_EQ(diagnostics.shown()[0].pointer, "branch/graphs/else_branch/r/op");
}

TEST(Infer, ResultsOfIfAreBoundedWhenABodysAre) {
  Graph graph = Parse(IfGraph("  r = NonZero(a)", "  r = NonZero(b)"));
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(ResultTypes(graph), "y:i64[2,6] bounded z:i64[2,6] bounded");
}

TEST(Infer, CapturesMustFitBodies) {
  EXPECT_EQ(ErrorsOf("input c : bool[]\n"
                     "input x : f32[3]\n"
                     "y = If(c, x) graph then_branch {\n  input a : f32[2]\n  output a\n"
                     "} graph else_branch {\n  input a : f32[3]\n  input b : f32[3]\n"
                     "  output a\n}"),
            "3:1: y/inputs/1: If 'y': input 'a' of nested graph 'then_branch' has another type "
            "than the value passed for it; expected f32[2], found f32[3] from input 'x'\n"
            "3:1: y: If 'y': nested graph 'else_branch' does not fit the node; expected 1 inputs "
            "and 1 outputs, found 2 and 1");
}

TEST(Infer, NestedGraphsMayNotBeMissingNorUnknown) {
  const std::string errors = ErrorsOf(
      "input c : bool[]\n"
      "y = If(c) graph then_branch {\n  const k : f32[] = splat 1\n  output k\n"
      "} graph else_brunch {\n  const k : f32[] = splat 1\n  output k\n}");
  EXPECT_THAT(errors, HasSubstr("If 'y': unknown nested graph 'else_brunch'; did you mean "
                                "'else_branch'?"));
  EXPECT_THAT(errors, HasSubstr("If 'y': nested graph 'else_branch' is missing"));
}

TEST(Infer, NestingIsBounded) {
  const auto leaf = [] {
    GraphBuilder builder;
    builder.Output(builder.Constant("k", Tensor::Scalar<float>(1)));
    return std::move(builder).Build();
  };
  Graph nested = leaf();
  for (int depth = 0; depth < 100; ++depth) {
    GraphBuilder builder;
    Node& node = builder.AddNode("If", {builder.Constant("c", Tensor::Scalar<bool>(true))});
    node.subgraphs = {{"then_branch", std::move(nested)}, {"else_branch", leaf()}};
    builder.Output(node.outputs[0]);
    nested = std::move(builder).Build();
  }
  EXPECT_THAT(std::string(StdView(InferTypes(nested).message())),
              HasSubstr("graphs are nested more than 64 deep"));
}

// --- Hostile graphs
// -------------------------------------------------------------------------------

TEST(Infer, TypesThatOverflowAreRefusedWhereTheyAreDeclared) {
  GraphBuilder builder;
  const ValueId x = builder.Input("x", {DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}});
  builder.Op("Flatten", {x});
  Diagnostics diagnostics;
  InferTypes(builder.graph(), diagnostics);
  ASSERT_EQ(diagnostics.total(), 1);
  EXPECT_EQ(FormatDiagnostic(diagnostics.shown()[0]),
            "x: 'x' is too large, or has a negative dim; expected at most 2^48 bytes, found "
            "f32[1099511627776,1099511627776]");
}

// Every op on every combination of ranks 0 to 4 with sizes 0, 1, 2^40 and plain ones, with the
// attributes it needs: types or a message, never a crash. Sharding rules and work hold as well.
TEST(Infer, OddShapesNeverCrash) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const std::vector<Shape> shapes = {{},           {0},          {1},
                                     {6},          {kHuge},      {0, 3},
                                     {3, 0},       {2, 3},       {0, kHuge},
                                     {kHuge, 0},   {1, 2, 3},    {0, kHuge, kHuge},
                                     {2, 0, 3, 3}, {1, 2, 3, 3}, {kHuge, kHuge, 0, 0}};
  int inferred = 0;
  for (const optest::OpCase& c : optest::OpCases()) {
    const size_t operands = std::min<size_t>(c.inputs.size(), 2);
    for (const Shape& a : shapes) {
      for (const Shape& b : shapes) {
        NodeQuery query{c.op, c.attrs, {}, {}};
        for (const Tensor& t : c.inputs) {
          query.inputs.push_back(t.has_data() ? std::optional(t.type()) : std::nullopt);
        }
        if (operands > 0 && query.inputs[0].has_value()) query.inputs[0]->shape = a;
        if (operands > 1 && query.inputs[1].has_value()) query.inputs[1]->shape = b;
        query.outputs.resize(c.num_outputs, TensorType{});
        std::vector<Tensor> constants(c.inputs.size());
        for (size_t i = 0; i < constants.size(); ++i) {
          if (query.inputs[i] == c.inputs[i].type()) constants[i] = c.inputs[i];
        }
        const auto types = InferOutputs(query, constants);
        if (!types.ok()) continue;
        ++inferred;
        for (size_t i = 0; i < types->size(); ++i) query.outputs[i] = (*types)[i];
        EXPECT_GE(WorkOf(query).bytes, 0);
        for (const ShardingRule& rule : ShardingRulesOf(query)) {
          EXPECT_EQ(rule.inputs.size(), query.inputs.size()) << c.name;
        }
      }
    }
  }
  EXPECT_GT(inferred, 1000);
}

}  // namespace
}  // namespace millrace
