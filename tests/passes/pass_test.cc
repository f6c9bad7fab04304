#include "passes/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/infer.h"
#include "passes/graph_edit.h"
#include "passes/pass_list.h"
#include "tests/passes/typed_graph.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr char kChain[] = "input x : f32[2]\na = Relu(x)\ny = Exp(a)\noutput y";

absl::Status RunOne(absl::StatusOr<bool> (*run)(Graph&, PassContext&)) {
  Graph graph = TypedGraph(kChain);
  const Pass pass{"broken", "", 1, run};
  PassContext context;
  RunPassesOptions options;
  options.catch_lies = true;
  return RunPasses({&pass, 1}, graph, context, options).status();
}

TEST(RunPasses, APassThatBreaksTheGraphIsNamed) {
  const absl::Status status = RunOne([](Graph& g, PassContext&) -> absl::StatusOr<bool> {
    g.nodes[0].inputs[0] = ValueId(2);
    return true;
  });
  EXPECT_EQ(ExitCode(status), 70);
  EXPECT_THAT(status.message(), HasSubstr("pass 'broken' broke the graph"));
}

TEST(RunPasses, APassThatBreaksTypesIsNamed) {
  const absl::Status status = RunOne([](Graph& g, PassContext&) -> absl::StatusOr<bool> {
    g.value(ValueId(1)).type.shape = Shape{3};
    return true;
  });
  EXPECT_EQ(ExitCode(status), 70);
  EXPECT_THAT(status.message(), HasSubstr("pass 'broken' broke the graph's types"));
}

TEST(RunPasses, APassThatLiesIsCaught) {
  const absl::Status status = RunOne([](Graph& g, PassContext&) -> absl::StatusOr<bool> {
    g.nodes[0].op = "Tanh";
    return false;
  });
  EXPECT_THAT(status.message(), HasSubstr("says that it did not"));
}

TEST(RunPasses, CallsBackAfterEachPassAndRecordsWhoDidWhat) {
  Graph graph = TypedGraph("input x : f32[2]\na = Identity(x)\nd = Exp(x)\ny = Relu(a)\noutput y");
  std::string log;
  RunPassesOptions options;
  options.after = [&](const Pass& pass, const Graph& g, bool changed) {
    StrAppend(&log, pass.name, changed ? " changed, " : " did nothing, ", g.nodes.size(), "\n");
    return absl::OkStatus();
  };
  PassContext context;
  EXPECT_TRUE(*RunPasses(*SelectPasses({.level = 1}), graph, context, options));
  EXPECT_EQ(log,
            "lower-einsum did nothing, 3\n"
            "fold-constants did nothing, 3\n"
            "eliminate-identity changed, 2\n"
            "simplify-algebra did nothing, 2\n"
            "merge-moves did nothing, 2\n"
            "merge-cuts did nothing, 2\n"
            "eliminate-common-subexpressions did nothing, 2\n"
            "lift-nested-constants did nothing, 2\n"
            "eliminate-dead-nodes changed, 1\n");
  ASSERT_EQ(context.records.size(), 2u);
  EXPECT_EQ(context.records[0].pass, "eliminate-identity");
  EXPECT_EQ(context.records[1].nodes, std::vector<std::string>{"d"});
}

TEST(RemoveNodes, RenumbersEverythingThatNamesAValue) {
  Graph graph = TypedGraph(
      "mesh \"data=2\"\ninput x : f32[2]\nparam p : f32[2] = init zeros\ndead = Exp(x)\n"
      "u = Relu(x) after [dead]\ny = Tanh(u) after [u]\nupdate p <- u\noutput y\n"
      "sharding y = \"data:0\"\ndoc dead = \"gone\"\ndoc u = \"stays\"");
  RemoveNodes(graph, {0, 1, 1});
  EXPECT_EQ(ToText(graph),
            "mesh \"data=2\"\ninput x : f32[2]\nparam p : f32[2] = init zeros seed 0 low 0.0 high "
            "1.0 std 1.0\nu : f32[2] = Relu(x)\ny : f32[2] = Tanh(u) after [u]\nupdate p <- u\n"
            "output y\ndoc u = \"stays\"\nsharding y = \"data:0\"\n");
}

TEST(SelectPasses, ByLevelByNameAndWithout) {
  const auto names = [](const PassSelection& selection) {
    std::vector<std::string> names;
    const absl::StatusOr<std::vector<Pass>> passes = SelectPasses(selection);
    EXPECT_TRUE(passes.ok()) << passes.status();
    if (passes.ok()) {
      for (const Pass& pass : *passes) names.push_back(pass.name);
    }
    return names;
  };
  EXPECT_EQ(names({.level = kAskedForLevel}).size(), AllPasses().size());
  EXPECT_THAT(names({.level = kMaxLevel}), testing::Not(testing::Contains("lower-to-bf16")));
  EXPECT_THAT(names({.level = 0, .also = {"lower-to-bf16"}}),
              testing::ElementsAre("lift-nested-constants", "lower-to-bf16"));
  EXPECT_THAT(names({.level = 0}), testing::ElementsAre("lift-nested-constants"));
  // In the list's order, with what plans need.
  EXPECT_THAT(names({.only = {"merge-moves", "fold-constants"}}),
              testing::ElementsAre("fold-constants", "merge-moves", "lift-nested-constants"));
  EXPECT_THAT(names({.without = {"merge-moves"}}), testing::Not(testing::Contains("merge-moves")));
}

TEST(SelectPasses, UnknownAndNeededPassesAreErrors) {
  EXPECT_EQ(SelectPasses({.only = {"merge-move"}}).status().message(),
            "no pass is called 'merge-move'; did you mean 'merge-moves'?");
  EXPECT_EQ(SelectPasses({.without = {"lift-nested-constants"}}).status().message(),
            "plans need pass 'lift-nested-constants'; it cannot be left out");
}

}  // namespace
}  // namespace millrace
