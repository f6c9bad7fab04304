// `millrace reduce`, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph_json.h"
#include "graph/text.h"
#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(Reduce, KeepsWhatTheTestAsksFor) {
  const std::string small = TestFolder() + "/small.json";
  const CommandResult result =
      RunMillrace({"reduce", TinyFile(), "-o", small, "--test", "grep -q Relu"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("small.json: 1 node of 2, after "));
  const absl::StatusOr<Graph> graph = LoadGraph(small);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->nodes.size(), 1u);
  EXPECT_EQ(graph->nodes[0].op, "Relu");
  EXPECT_TRUE(graph->params.empty());
  EXPECT_EQ(graph->value(graph->inputs[0]).type.shape, Shape({1, 1}));
}

TEST(Reduce, TheCandidateStandsWhereTheCommandSaysSo) {
  const std::string small = TestFolder() + "/small.json";
  const CommandResult result = RunMillrace(
      {"reduce", TinyFile(), "-o", small, "--json", "--test", "grep -q MatMul {} && test -s {}"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.Json()["nodes"], 1);
  EXPECT_EQ(result.Json()["nodes_before"], 2);
}

TEST(Reduce, WhatShowsNoFaultIsRefused) {
  const std::string small = TestFolder() + "/none.json";
  const CommandResult result = RunMillrace({"reduce", TinyFile(), "-o", small, "--test", "false"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("does not show the fault"));
  const CommandResult right = RunMillrace({"reduce", TinyFile(), "-o", small, "--mismatch"});
  EXPECT_EQ(right.exit_code, 2);
  EXPECT_THAT(right.err, HasSubstr("does not show the fault"));
}

TEST(Reduce, ATestThatHangsIsEnded) {
  const std::string small = TestFolder() + "/hang.json";
  const CommandResult result = RunMillrace(
      {"reduce", TinyFile(), "-o", small, "--timeout", "1", "--test", "sleep 100; true"});
  EXPECT_EQ(result.exit_code, 2);
}

TEST(Reduce, WantsToKnowWhatTheFaultIs) {
  const std::string small = TestFolder() + "/small.json";
  EXPECT_EQ(RunMillrace({"reduce", TinyFile(), "-o", small}).exit_code, 2);
  EXPECT_EQ(
      RunMillrace({"reduce", TinyFile(), "-o", small, "--mismatch", "--test", "true"}).exit_code,
      2);
}

}  // namespace
}  // namespace millrace
