// Type inference: the types each op gives, nested graphs, and sizes known only at run time. Graphs
// are written in the text form. What is said of nodes that are wrong: infer_errors_test.cc.
#include "ops/infer.h"

#include "gmock/gmock.h"
#include "graph/builder.h"
#include "gtest/gtest.h"
#include "tests/ops/infer_support.h"
#include "tests/ops/op_cases.h"

namespace millrace {
namespace {

using optest::ErrorsOf;
using optest::MakeAttrs;
using optest::Parse;
using optest::ResultTypes;
using optest::TypesOf;
using ::testing::HasSubstr;

// --- Result types ------------------------------------------------------------------------------

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
      {"input x : f32[2, 3]\nz = comm.AllGather(x) {axis = \"data\", parts = 4}", "z:f32[8,3]"},
      {"input x : f32[8, 3]\nz = comm.ReduceScatter(x) {axis = \"data\", parts = 4}", "z:f32[2,3]"},
      {"input x : i64[8, 3]\nz = comm.AllToAll(x) {axis = \"data\", parts = 4}", "z:i64[8,3]"},
      {"input x : bool[3]\nz = comm.Broadcast(x) {axis = \"data\", root = 1}", "z:bool[3]"},
      {"input x : f32[2]\nz = comm.AllReduce(x) {axis = \"data\", op = \"max\"}", "z:f32[2]"},
  };
  for (const TypeCase& c : kCases) EXPECT_EQ(TypesOf(c.text), c.expected) << c.text;
}

// --- Attributes --------------------------------------------------------------------------------

TEST(Infer, AttributesAreNormalizedToTheSchema) {
  Graph graph = Parse(
      "input x : f32[2,2]\n"
      "y = Gemm(x, x) {alpha = 2, transA = 1}\n"
      "z = comm.AllReduce(y) {axis = \"data\"}");
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(graph.nodes[0].attrs, MakeAttrs({{"alpha", 2.0}, {"transA", true}}));
  EXPECT_EQ(graph.nodes[1].attrs, MakeAttrs({{"axis", std::vector<std::string>{"data"}}}));
}

// --- Declared types ----------------------------------------------------------------------------

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

// --- Sizes known only at run time --------------------------------------------------------------

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

// --- Nested graphs -----------------------------------------------------------------------------

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

// Plans number bodies. A file that listed else_branch first ran it when the condition held.
TEST(Infer, BodiesOfIfStandInOneOrder) {
  Graph graph = Parse(IfGraph("  r = Relu(a)", "  r = Exp(b)"));
  std::swap(graph.nodes[0].subgraphs[0], graph.nodes[0].subgraphs[1]);
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(graph.nodes[0].subgraphs[0].name, "then_branch");
  EXPECT_EQ(graph.nodes[0].subgraphs[1].name, "else_branch");
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
            "3:1: y: If 'y': nested graph 'else_branch' does not fit the node; expected 1 input "
            "and 1 output, found 2 inputs and 1 output");
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

}  // namespace
}  // namespace millrace
