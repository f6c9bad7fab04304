// What type inference says of nodes that are wrong. Messages are compared whole; graphs are written
// in the text form.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/infer_support.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

using optest::ErrorsOf;
using optest::MakeAttrs;
using optest::Parse;
using optest::ResultTypes;
using ::testing::HasSubstr;

// --- By op -------------------------------------------------------------------------------------

struct OpError {
  std::string op;
  Attrs attrs;
  std::vector<Shape> inputs;
  std::string expected;
  int num_outputs = 1;
};

using Ints = std::vector<int64_t>;

TEST(InferErrors, MessagesByOp) {
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
      {"Concat", MakeAttrs({{"axis", int64_t{0}}}), {{}}, "Concat: axis 0 is out of range: there are no dims"},
      {"Split",
       {},
       {{5}},
       "Split: a dim of 5 does not split in 2 equal parts; 'split' may give the sizes",
       2},
      {"Softmax",
       MakeAttrs({{"axis", int64_t{-3}}}),
       {{2, 3}},
       "Softmax: axis -3 is out of range [-2,2)"},
      {"Softmax", {}, {{}}, "Softmax: axis -1 is out of range: there are no dims"},
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
      {"ArgMax", {}, {{0, 3}}, "ArgMax: axis 0 is empty, it has no largest nor smallest"},
      {"Relu",
       {},
       {{kHuge, kHuge}},
       "Relu: an input of f32[1099511627776,1099511627776] is too large"},
      {"comm.AllReduce",
       MakeAttrs({{"axis", std::vector<std::string>{}}}),
       {{2}},
       "comm.AllReduce: attribute 'axis' names no mesh axis"},
      {"comm.ReduceScatter",
       MakeAttrs({{"axis", std::vector<std::string>{"data"}}, {"parts", int64_t{3}}}),
       {{4, 2}},
       "comm.ReduceScatter: dim 0 of X, 4, cannot be cut in 3 parts"},
      {"comm.AllGather",
       MakeAttrs({{"axis", std::vector<std::string>{"data"}}, {"parts", int64_t{0}}}),
       {{4, 2}},
       "comm.AllGather: attribute 'parts' must be at least 1, is 0"},
      {"comm.AllToAll",
       MakeAttrs({{"axis", std::vector<std::string>{"a", "a"}}, {"parts", int64_t{2}}}),
       {{4, 2}},
       "comm.AllToAll: attribute 'axis' names 'a' twice"},
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
TEST(InferErrors, MessagesAboutConstantOperands) {
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
              HasSubstr("'shape' must be known while planning, but it depends on input 's'"));
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

TEST(InferErrors, UnknownOpsNameTheNearest) {
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Rellu(x)"),
            "2:1: y/op: Rellu 'y': unknown op 'Rellu'; did you mean 'Relu'?");
}

TEST(InferErrors, AttributesAreCheckedAgainstTheSchema) {
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Softmax(x) {axes = 1}"),
            "2:1: y/attrs/axes: Softmax 'y': unknown attribute 'axes'; expected one of axis; did "
            "you mean 'axis'?");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Relu(x) {alpha = 1}"),
            "2:1: y/attrs/alpha: Relu 'y': unknown attribute 'alpha'; expected no attributes");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Softmax(x) {axis = 1.5}"),
            "2:1: y/attrs/axis: Softmax 'y': attribute 'axis' has the wrong kind; expected int, "
            "found float 1.5");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Gelu(x) {approximate = \"tan\"}"),
            "2:1: y/attrs/approximate: Gelu 'y': attribute 'approximate' has no such choice; "
            "expected one of 'none', 'tanh', found 'tan'; did you mean 'tanh'?");
  EXPECT_EQ(ErrorsOf("input x : f32[2]\ny = Cast(x)"),
            "2:1: y/attrs: Cast 'y': attribute 'to' is missing; expected 'to': string");
}

TEST(InferErrors, OperandsAreCheckedAgainstTheSignature) {
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

TEST(InferErrors, ShapeErrorsShowOperandsAndWhereTheyComeFrom) {
  EXPECT_EQ(ErrorsOf("input x : f32[2,4]\na, b = Split(x) {axis = 1}\n"
                     "param w : f32[5,3] = init zeros\nfc: h = MatMul(b, w)"),
            "4:1: fc: MatMul 'fc': inner sizes differ: 2 and 5; found A: f32[2,2] from output 1 of "
            "Split 'a', B: f32[5,3] from param 'w'");
}

TEST(InferErrors, FileIndexGivesAJsonPointer) {
  Graph graph = Parse("input x : f32[2]\ny = Softmax(x) {axes = 1}");
  graph.nodes[0].file_index = 7;
  EXPECT_THAT(std::string(StdView(InferTypes(graph).message())),
              HasSubstr("/nodes/7/attrs/axes: Softmax 'y'"));
}

TEST(InferErrors, OneMistakeIsToldOnce) {
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
TEST(InferErrors, UntypedOperandsHideNoOtherMistake) {
  Graph graph = Parse("input x : f32[2]\na = Nope(x)\nb = Softmax(a) {axes = 1}\nc = Add(a)");
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  EXPECT_EQ(diagnostics.total(), 3);
}

TEST(InferErrors, AllMistakesAtOnceButNoMoreThanTwenty) {
  std::string text = "input x : f32[2]\n";
  for (int i = 0; i < 50; ++i) StrAppend(&text, "y", i, " = Nope(x)\n");
  Graph graph = Parse(text);
  Diagnostics diagnostics;
  InferTypes(graph, diagnostics);
  EXPECT_EQ(diagnostics.total(), 50);
  EXPECT_EQ(diagnostics.shown().size(), 20u);
}

// --- Hostile graphs ----------------------------------------------------------------------------

TEST(InferErrors, TypesThatOverflowAreRefusedWhereTheyAreDeclared) {
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

constexpr int64_t kSmallBytes = 1 << 16;

// Runs the reference kernel where all operands and results are small.
void RunIfSmall(const NodeQuery& query, const std::vector<Tensor>& constants) {
  for (const auto* types : {&query.inputs, &query.outputs}) {
    for (const auto& type : *types) {
      if (type.has_value() && ByteSize(*type) > kSmallBytes) return;
    }
  }
  std::vector<Tensor> inputs = constants;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_data() || !query.inputs[i].has_value()) continue;
    inputs[i] = optest::RandomTensor(*query.inputs[i], i);
  }
  // An error is as good as a result: positions may be out of range.
  (void)optest::RunReference(query.op, query.attrs, inputs, static_cast<int>(query.outputs.size()));
}

// Every op on pairs of shapes with sizes 0, 1, 2^40 and plain ones: types or a message, never a
// crash. Work, sharding rules and, on small (so: many empty) tensors, the kernels hold as well.
TEST(InferErrors, OddShapesNeverCrash) {
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
        RunIfSmall(query, constants);
      }
    }
  }
  EXPECT_GT(inferred, 1000);
}

}  // namespace
}  // namespace millrace
