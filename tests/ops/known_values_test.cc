// Known values: what inference finds out about shapes that a graph computes. Graphs are written in
// the text form; `z` is the node whose type shows what was known.
#include "ops/known_values.h"

#include "gmock/gmock.h"
#include "graph/builder.h"
#include "graph/safetensors.h"
#include "gtest/gtest.h"
#include "ops/infer.h"
#include "tests/ops/infer_support.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using optest::ErrorsOf;
using optest::Parse;
using optest::TypesOf;
using ::testing::HasSubstr;

ValueId Find(const Graph& graph, std::string_view name) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].name == name) return ValueId(v);
  }
  return ValueId();
}

// --- What is known -----------------------------------------------------------------------------

// As exporters write `x.reshape(x.shape[0], -1)`.
TEST(KnownValues, ShapesComputedFromTypes) {
  EXPECT_THAT(TypesOf("input x : f32[2,3,4]\n"
                      "const zero : i64[] = splat 0\n"
                      "const one : i64[1] = inline [1]\n"
                      "const rest : i64[1] = inline [-1]\n"
                      "s = Shape(x)\n"
                      "n = Gather(s, zero)\n"
                      "m = Reshape(n, one)\n"
                      "t = Concat(m, rest) {axis = 0}\n"
                      "z = Reshape(x, t)"),
              HasSubstr("z:f32[2,12]"));
}

TEST(KnownValues, ArithmeticOnSizes) {
  EXPECT_THAT(TypesOf("input x : f32[6,5]\n"
                      "const one : i64[1] = inline [1]\n"
                      "const two : i64[1] = inline [2]\n"
                      "n = Size(x)\n"
                      "m = Reshape(n, one)\n"
                      "half = Div(m, two)\n"
                      "t = Concat(half, two) {axis = 0}\n"
                      "z = Reshape(x, t)"),
              HasSubstr("z:f32[15,2]"));
}

TEST(KnownValues, ResultsThatNobodyAskedForDoNotMatter) {
  EXPECT_THAT(TypesOf("input x : f32[6]\n"
                      "const s : i64[4] = inline [3, 2, 1, 6]\n"
                      "a, _ = Split(s)\n"
                      "z = Reshape(x, a)"),
              HasSubstr("z:f32[3,2]"));
}

TEST(KnownValues, BodiesKnowWhatIsPassedIn) {
  Graph graph = Parse(
      "input c : bool[]\n"
      "input x : f32[2,3]\n"
      "s = Shape(x)\n"
      "y = If(c, x, s) graph then_branch {\n"
      "  input a : f32[2,3]\n"
      "  input b : i64[2]\n"
      "  const rest : i64[1] = inline [-1]\n"
      "  r = Reshape(a, rest)\n"
      "  t = Reshape(r, b)\n"
      "  output t\n"
      "} graph else_branch {\n"
      "  input a : f32[2,3]\n"
      "  input b : i64[2]\n"
      "  output a\n"
      "}\n");
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(optest::ResultTypes(graph), "s:i64[2] y:f32[2,3]");
}

// Captures are the same in every trip; what is carried is not.
TEST(KnownValues, BodiesOfLoopsKnowCapturesOnly) {
  const auto types = [](std::string_view shape) {
    return TypesOf(StrCat("input x : f32[6]\n",
                          "const m : i64[] = splat 3\n"
                          "const s : i64[2] = inline [2, 3]\n"
                          "z, t, e = Loop(m, _, x, s, s) {num_captures = 1} graph body {\n"
                          "  input n : i64[]\n"
                          "  input c : bool[]\n"
                          "  input a : f32[6]\n"
                          "  input carried : i64[2]\n"
                          "  input captured : i64[2]\n"
                          "  b = Reshape(a, ",
                          shape,
                          ")\n"
                          "  d = Relu(a)\n"
                          "  next = Neg(carried)\n"
                          "  output c\n"
                          "  output d\n"
                          "  output next\n"
                          "  output b\n"
                          "}"));
  };
  EXPECT_EQ(types("captured"), "z:f32[6] t:i64[2] e:f32[3,2,3]");
  EXPECT_THAT(types("carried"), HasSubstr("it depends on input 'carried'"));
}

TEST(KnownValues, SmallConstantsOfWeightFiles) {
  const TemporaryFolder folder;
  const Tensor shape = Tensor::Of<int64_t>({2}, {3, 2});
  ASSERT_EQ(WriteSafetensors(folder.File("w.safetensors"), {{"shape", shape}}), absl::OkStatus());
  Graph graph = Parse(
      "input x : f32[6]\n"
      "weights w = \"w.safetensors\"\n"
      "const s : i64[2] = file w \"shape\"\n"
      "z = Reshape(x, s)");
  graph.directory = folder.path();
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  EXPECT_EQ(optest::ResultTypes(graph), "z:f32[3,2]");

  graph.directory = folder.File("nowhere");
  EXPECT_THAT(std::string(StdView(InferTypes(graph).message())),
              HasSubstr("'shape' must be known while planning, but 's' cannot be had"));
}

// --- What is not -------------------------------------------------------------------------------

std::string ReshapeBy(std::string_view shape) {
  return ErrorsOf(StrCat("input x : f32[6]\n", shape, "\nz = Reshape(x, s)"));
}

TEST(KnownValues, TheReasonIsNamed) {
  EXPECT_THAT(ReshapeBy("input n : i64[2]\none = Neg(n)\ns = Neg(one)"),
              HasSubstr("'shape' must be known while planning, but it depends on input 'n'"));
  EXPECT_THAT(ReshapeBy("param p : i64[2] = init zeros\ns = Neg(p)"),
              HasSubstr("it depends on param 'p'"));
  EXPECT_THAT(ReshapeBy("const k : i64[5000] = splat 1\nconst a : i64[1] = inline [0]\n"
                        "s = ReduceSum(k, a)"),
              HasSubstr("'k', i64[5000], has more than the 32768 bytes up to which values are "
                        "computed while planning"));
  EXPECT_THAT(ReshapeBy("const k : i64[2] = splat 1\nconst i : i64[2] = inline [0, 9]\n"
                        "t = Identity(i)\ns : i64[2] = Gather(k, t)"),
              HasSubstr("index 9"));
  EXPECT_THAT(ReshapeBy("const k : i64[1] = splat 1\nn = NonZero(k)\nconst i : i64[] = splat 0\n"
                        "s = Gather(n, i)"),
              HasSubstr("is a result of"));
}

// Types that a file declares are no proof that the node was found right.
TEST(KnownValues, NodesWithFaultsAreNotComputed) {
  EXPECT_THAT(ReshapeBy("const k : i64[2] = splat 1\ns : i64[2] = Softmax(k) {axis = \"no\"}"),
              HasSubstr("attribute 'axis' has the wrong kind"));
  EXPECT_THAT(ReshapeBy("const k : i64[2] = splat 1\ns : i64[2] = Transpose(k) {perm = [4]}"),
              HasSubstr("'perm' is no permutation"));
  EXPECT_THAT(ReshapeBy("const k : f32[2] = splat 1\ns : i64[2] = Neg(k)"),
              HasSubstr("has another type than declared"));
}

// --- Size and work -----------------------------------------------------------------------------

TEST(KnownValues, LongChainsNeitherOverflowNorRepeat) {
  GraphBuilder builder;
  const ValueId x = builder.Input("x", {DType::kF32, {6}});
  ValueId shape = builder.Constant("k", Tensor::Of<int64_t>({2}, {2, 3}));
  for (int i = 0; i < 100'000; ++i) shape = builder.Op("Neg", {shape});
  const ValueId z = builder.Op("Reshape", {x, shape});
  ASSERT_EQ(InferTypes(builder.graph()), absl::OkStatus());
  EXPECT_EQ(ToString(builder.graph().value(z).type), "f32[2,3]");
}

// Each value has two paths to the one before: 2^40 paths, but 40 values.
TEST(KnownValues, SharedValuesAreComputedOnce) {
  GraphBuilder builder;
  const ValueId x = builder.Input("x", {DType::kF32, {0}});
  ValueId shape = builder.Constant("k", Tensor::Of<int64_t>({1}, {1}));
  for (int i = 0; i < 40; ++i) shape = builder.Op("Sub", {shape, shape});
  builder.Op("Reshape", {x, shape});
  EXPECT_EQ(InferTypes(builder.graph()), absl::OkStatus());
}

TEST(KnownValues, NothingIsComputedUnlessAsked) {
  // The product would fail to be had: 2^62 steps. Nobody asks for it.
  GraphBuilder builder;
  ValueId k = builder.Constant("k", Tensor::Zeros({DType::kI64, {64, 64}}));
  for (int i = 0; i < 1000; ++i) k = builder.Op("MatMul", {k, k});
  EXPECT_EQ(InferTypes(builder.graph()), absl::OkStatus());
}

TEST(KnownValues, WorkIsBounded) {
  GraphBuilder builder;
  ValueId k = builder.Constant("k", Tensor::Zeros({DType::kI64, {64, 64}}));
  for (int i = 0; i < 1000; ++i) k = builder.Op("MatMul", {k, k});
  ASSERT_EQ(InferTypes(builder.graph()), absl::OkStatus());
  KnownValues known(builder.graph());
  EXPECT_FALSE(known.Of(k).has_value());
  EXPECT_THAT(known.WhyUnknown(k), HasSubstr("is more work than is done while planning"));
}

TEST(KnownValues, LimitsAreTheCallers) {
  Graph graph = Parse("const k : i64[8] = splat 1\ny = Neg(k)\nz = Neg(y)");
  ASSERT_EQ(InferTypes(graph), absl::OkStatus());
  const ValueId z = Find(graph, "z");
  EXPECT_TRUE(KnownValues(graph).Of(z).has_value());
  EXPECT_FALSE(KnownValues(graph, {.value_bytes = 63}).Of(z).has_value());
  EXPECT_FALSE(KnownValues(graph, {.total_bytes = 127}).Of(z).has_value());
  EXPECT_TRUE(KnownValues(graph, {.value_bytes = 64, .total_bytes = 128}).Of(z).has_value());
}

}  // namespace
}  // namespace millrace
