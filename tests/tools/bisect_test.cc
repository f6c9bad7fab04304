// `millrace bisect`: the one rewrite that makes a result wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/infer.h"
#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"
#include "tools/find_wrong_rewrite.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Swaps operands: right of sums and products, wrong of differences.
absl::StatusOr<bool> SwapOperands(Graph& graph, PassContext& context) {
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (node.op != "Add" && node.op != "Mul" && node.op != "Sub") continue;
    std::swap(node.inputs[0], node.inputs[1]);
    context.Applied("swap", {node.name}, "reads the other one first");
    changed = true;
  }
  return changed;
}

// Right here, where it is of exponentials.
absl::StatusOr<bool> AbsToRelu(Graph& graph, PassContext& context) {
  for (Node& node : graph.nodes) {
    if (node.op != "Abs") continue;
    node.op = "Relu";
    context.Applied("abs-to-relu", {node.name}, "is a Relu");
    return true;
  }
  return false;
}

const Pass kRight = {"abs-to-relu", "", 1, AbsToRelu};
const Pass kPartlyWrong = {"swap-operands", "", 1, SwapOperands};

Graph SumsAndDifferences() {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
    input x : f32[4]
    input y : f32[4]
    a = Exp(x)
    b = Abs(a)
    c = Add(b, y)
    d = Mul(c, x)
    e = Sub(d, y)
    f = Add(e, x)
    g = Mul(f, f)
    output g
  )");
  EXPECT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(InferTypes(*graph).ok());
  return *std::move(graph);
}

RewriteFn Running(std::vector<Pass> passes) {
  return [passes](Graph& graph, const RunPassesOptions& options) {
    PassContext context;
    return RunPasses(passes, graph, context, options).status();
  };
}

TEST(FindWrongRewrite, NamesTheOneThatIsWrong) {
  const auto found =
      FindWrongRewrite(SumsAndDifferences(), Running({kRight, kPartlyWrong, kRight}), {}, 1);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  const WrongRewrite& wrong = **found;
  EXPECT_EQ(wrong.pass, "swap-operands");
  EXPECT_EQ(wrong.execution, 2);
  EXPECT_EQ(wrong.executions, 2);
  ASSERT_EQ(wrong.records.size(), 1u);
  EXPECT_THAT(wrong.records[0].nodes, ElementsAre("e"));
  ASSERT_EQ(wrong.smallest.nodes.size(), 1u);
  EXPECT_EQ(wrong.smallest.nodes[0].op, "Sub");
  EXPECT_NE(wrong.mismatch, "");
}

TEST(FindWrongRewrite, FindsNothingWhereNothingIsWrong) {
  const auto found = FindWrongRewrite(SumsAndDifferences(), Running({kRight}), {}, 1);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->has_value());
}

// What a step writes to a param is a result as well.
TEST(FindWrongRewrite, LooksAtUpdates) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
    input x : f32[4]
    param w : f32[4] = init ones seed 0
    v = Sub(x, w)
    y = Exp(x)
    update w <- v
    output y
  )");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(InferTypes(*graph).ok());
  const auto found = FindWrongRewrite(*graph, Running({kPartlyWrong}), {}, 1);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_THAT((*found)->records[0].nodes, ElementsAre("v"));
}

TEST(BisectCommand, FindsNothingWrongWithOurOwnPasses) {
  const CommandResult result = RunMillrace({"bisect", TinyFile()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no rewrite is wrong"));
  const CommandResult json = RunMillrace({"bisect", TinyFile(), "--json", "-O", "3"});
  EXPECT_EQ(json.Json()["wrong"], false) << json.err;
  EXPECT_EQ(RunMillrace({"bisect", TinyFile(), "--passes", "no-such"}).exit_code, 2);
}

}  // namespace
}  // namespace millrace
