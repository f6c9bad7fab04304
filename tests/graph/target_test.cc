#include "graph/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "graph/builder.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

const TensorType kMatrix = {DType::kF32, {2, 3}};
const TensorType kBias = {DType::kBF16, {3}};

NodeQuery Query(std::string op, int64_t axis) {
  NodeQuery query;
  query.op = std::move(op);
  query.attrs.Set("axis", axis);
  query.attrs.Set("alpha", 1.0);
  query.inputs = {kMatrix, std::nullopt, kBias};
  query.outputs = {kMatrix};
  query.known = {{1, {0, -1}}, {2, {}}};
  return query;
}

KernelVariant FullVariant() {
  KernelVariant v;
  v.name = "onednn.jit:avx512_core";
  v.in_layouts = {Layout::kNHWC, Layout::kPacked, Layout::kStrided};
  v.out_layouts = {Layout::kNChw16c};
  v.strided = true;
  v.scratch_bytes = 4096;
  v.prepack = {1};
  v.epilogues = {"add", "max"};
  v.threads = 4;
  v.on_host = true;
  v.capturable = false;
  v.deterministic = false;
  v.flops = 1.5e9;
  v.bytes = 123456789;
  v.time_us = 0.1;
  return v;
}

KernelVariant PlainVariant() {
  KernelVariant v;
  v.name = "reference";
  v.in_layouts.assign(3, Layout::kStrided);
  v.out_layouts = {Layout::kStrided};
  return v;
}

SavedTarget TwoAnswers() {
  SavedTarget target("cpu");
  EXPECT_TRUE(target.Add(Query("Softmax", 1), {FullVariant(), PlainVariant()}));
  EXPECT_TRUE(target.Add(Query("Relu", 0), {}));
  return target;
}

TEST(SavedTargetTest, AnswersWhatItWasToldAndNothingElse) {
  const SavedTarget target = TwoAnswers();
  EXPECT_EQ(target.Variants(Query("Softmax", 1)),
            (std::vector<KernelVariant>{FullVariant(), PlainVariant()}));
  EXPECT_TRUE(target.Variants(Query("Relu", 0)).empty());
  EXPECT_TRUE(target.Variants(Query("Softmax", 0)).empty());
  NodeQuery other = Query("Softmax", 1);
  other.inputs[1] = kBias;
  EXPECT_TRUE(target.Variants(other).empty());
  other = Query("Softmax", 1);
  other.attrs.Set("alpha", int64_t{1});  // 1 is not 1.0
  EXPECT_TRUE(target.Variants(other).empty());
  other = Query("Softmax", 1);
  other.known[1] = {0, -2};
  EXPECT_TRUE(target.Variants(other).empty());
}

TEST(SavedTargetTest, ALaterAnswerReplaces) {
  SavedTarget target = TwoAnswers();
  EXPECT_FALSE(target.Add(Query("Softmax", 1), {PlainVariant()}));
  EXPECT_EQ(target.Variants(Query("Softmax", 1)).size(), 1u);
}

TEST(SavedTargetTest, FilesAreCanonicalAndLoseNothing) {
  const std::string json = TwoAnswers().ToJson();
  const absl::StatusOr<SavedTarget> loaded = SavedTarget::Parse(json, "t.json");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->device_kind(), "cpu");
  EXPECT_EQ(loaded->Variants(Query("Softmax", 1)), TwoAnswers().Variants(Query("Softmax", 1)));
  EXPECT_EQ(loaded->ToJson(), json);
  EXPECT_EQ(SavedTarget::Parse(SavedTarget("cuda").ToJson(), "")->device_kind(), "cuda");

  SavedTarget reversed("cpu");  // the order of adding leaves no trace
  reversed.Add(Query("Relu", 0), {});
  reversed.Add(Query("Softmax", 1), {FullVariant(), PlainVariant()});
  EXPECT_EQ(reversed.ToJson(), json);
}

TEST(SavedTargetTest, FaultsOfAFileAreAllReported) {
  const std::string good = TwoAnswers().ToJson();
  const auto errors = [&](std::string_view from, std::string_view to) {
    const std::string json = absl::StrReplaceAll(good, {{AbslView(from), AbslView(to)}});
    EXPECT_NE(json, good);
    const absl::StatusOr<SavedTarget> target = SavedTarget::Parse(json, "t.json");
    EXPECT_EQ(ExitCode(target.status()), 3);
    return std::string(target.status().message());
  };
  EXPECT_THAT(errors("\"nhwc\"", "\"nwhc\""),
              HasSubstr("/answers/1/variants/0/in_layouts: unknown layout 'nwhc'"));
  EXPECT_THAT(errors("\"f32\"", "\"f3\""), HasSubstr("did you mean 'f32'?"));
  EXPECT_THAT(errors("\"scratch_bytes\": 4096", "\"scratch_bytes\": -1"),
              HasSubstr("/scratch_bytes: out of range"));
  EXPECT_THAT(errors("\"time_us\": 0.1", "\"time_us\": \"nan\""), HasSubstr("/time_us"));
  EXPECT_THAT(errors("\"epilogues\"", "\"epilogue\""), HasSubstr("did you mean 'epilogues'?"));
  EXPECT_THAT(errors("\"1\": [0", "\"01\": [0"),
              HasSubstr("/known/01: not the place of an operand"));
  EXPECT_THAT(errors("\"Softmax\"", "5"), HasSubstr("/answers/1/op: wrong kind of value"));
  EXPECT_THAT(errors("millrace-target", "millrace-graph"), HasSubstr("not this kind of file"));
  const std::string twice = errors("\"op\": \"Relu\", \"attrs\": {\"alpha\": 1.0, \"axis\": 0}",
                                   "\"op\": \"Softmax\", \"attrs\": {\"axis\": 1, \"alpha\": 1.0}");
  EXPECT_THAT(twice, HasSubstr("/answers/1: the same question is answered twice"));
}

// A target that answers with the op's name.
class EchoTarget : public Target {
 public:
  std::string_view device_kind() const override { return "cpu"; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override {
    KernelVariant v;
    v.name = "echo." + query.op;
    return {v};
  }
};

TEST(QueryForTest, KnowsSmallConstantsOfIntegers) {
  GraphBuilder builder;
  const ValueId x = builder.Input("x", kMatrix);
  const ValueId axes = builder.Constant("axes", Tensor::Of<int64_t>({2}, {0, -1}));
  const ValueId k = builder.Constant("k", Tensor::Scalar<int32_t>(3));
  const ValueId many = builder.Constant("many", Tensor::Zeros({DType::kI64, {65}}));
  const ValueId real = builder.Constant("real", Tensor::Scalar(1.0f));
  builder.Op("Nope", {axes, x, ValueId(), k, many, real});

  const NodeQuery query = QueryFor(builder.graph(), NodeId(0));

  const std::map<int, std::vector<int64_t>> expected = {{0, {0, -1}}, {3, {3}}};
  EXPECT_EQ(query.known, expected);
}

TEST(SavedTargetTest, SavesTheAnswersForEveryNodeNestedOnesToo) {
  GraphBuilder inner;
  inner.Output(inner.Op("Neg", {inner.Input("a", kMatrix)}));
  GraphBuilder outer;
  const ValueId x = outer.Input("x", kMatrix);
  Node& node = outer.AddNode("If", {x});
  node.subgraphs.push_back({"then_branch", std::move(inner).Build()});
  const Graph graph = std::move(outer).Build();

  const SavedTarget saved = SaveTarget(EchoTarget(), graph);

  const NodeQuery branch = QueryFor(graph, NodeId(0));
  EXPECT_EQ(branch.inputs[0], kMatrix);
  EXPECT_EQ(branch.outputs[0], std::nullopt);  // not inferred yet
  EXPECT_EQ(saved.Variants(branch)[0].name, "echo.If");
  const NodeQuery neg = QueryFor(graph.nodes[0].subgraphs[0].graph, NodeId(0));
  EXPECT_EQ(saved.Variants(neg)[0].name, "echo.Neg");
}

}  // namespace
}  // namespace millrace
