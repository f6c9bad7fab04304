// `millrace optimize`, `explain`, `passes`, and the options about rewrites.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/run_millrace.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// y = exp(x'' + 0 * ...): two transposes that cancel, and one addition that is computed twice.
constexpr std::string_view kWasteful = R"({
  "format": "millrace-graph", "version": "1.0", "name": "wasteful",
  "symbols": {"N": {"min": 1, "max": 64, "default": 2}},
  "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": ["N", 3]}}],
  "nodes": [
    {"name": "turn", "op": "Transpose", "inputs": ["x"], "outputs": ["t"]},
    {"name": "back", "op": "Transpose", "inputs": ["t"], "outputs": ["b"]},
    {"name": "one", "op": "Exp", "inputs": ["b"], "outputs": ["e"]},
    {"name": "other", "op": "Exp", "inputs": ["x"], "outputs": ["f"]},
    {"name": "sum", "op": "Add", "inputs": ["e", "f"], "outputs": ["y"]}
  ],
  "outputs": ["y"]
})";
std::string Wasteful() { return WriteTestFile("wasteful.json", kWasteful); }

TEST(Optimize, WritesAGraphThatRunsToTheSameResult) {
  const std::string optimized = TestPath("optimized.json");
  const CommandResult result = RunMillrace({"optimize", Wasteful(), "-o", optimized});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("graph wasteful: 1 node of 5\n"));
  const std::string before = TestPath("before.npy");
  EXPECT_EQ(
      RunMillrace({"run", Wasteful(), "-O", "0", "--input", "x=rand:7", "--output", "y=@" + before})
          .exit_code,
      0);
  const CommandResult run = RunMillrace({"run", optimized, "--input", "x=rand:7", "--expect",
                                         "y=@" + before, "--rtol", "0", "--atol", "0"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST(Optimize, SizesAreFixed) {
  const CommandResult result = RunMillrace({"optimize", Wasteful(), "--set", "N=5", "--text"});
  EXPECT_THAT(result.out, HasSubstr("input x : f32[5,3]"));
  EXPECT_THAT(result.out, Not(HasSubstr("symbol")));
}

TEST(Optimize, SizesInBodiesAreFixedToo) {
  const std::string branches = WriteTestFile("branches.json", R"({
    "format": "millrace-graph", "version": "1.0", "name": "branches",
    "symbols": {"N": {"min": 1, "max": 64, "default": 2}},
    "inputs": [{"name": "c", "type": {"dtype": "bool", "shape": []}},
               {"name": "x", "type": {"dtype": "f32", "shape": ["N", 2]}}],
    "nodes": [{"name": "if", "op": "If", "inputs": ["c", "x"], "outputs": ["y"], "graphs": {
      "then_branch": {"inputs": [{"name": "a", "type": {"dtype": "f32", "shape": ["N", 2]}}],
        "nodes": [{"name": "r", "op": "Relu", "inputs": ["a"], "outputs": ["t"]}],
        "outputs": ["t"]},
      "else_branch": {"inputs": [{"name": "a", "type": {"dtype": "f32", "shape": ["N", 2]}}],
        "nodes": [{"name": "r", "op": "Neg", "inputs": ["a"], "outputs": ["t"]}],
        "outputs": ["t"]}}}],
    "outputs": ["y"]})");
  const std::string optimized = TestPath("optimized.json");
  const CommandResult result = RunMillrace({"optimize", branches, "-o", optimized});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const CommandResult run = RunMillrace({"run", optimized, "--input", "*=rand:1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Optimize, LevelZeroLeavesTheGraphAsItIs) {
  EXPECT_THAT(RunMillrace({"optimize", Wasteful(), "-O0"}).out,
              StartsWith("graph wasteful: 5 nodes of 5\n"));
}

TEST(Optimize, PassesAreChosenByName) {
  const auto json = RunMillrace({"optimize", Wasteful(), "--passes",
                                 "eliminate-common-subexpressions,merge-moves", "--json"})
                        .Json();
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["nodes_before"], 5);
  for (const auto& rewrite : json["rewrites"]) EXPECT_NE(rewrite["pass"], "eliminate-dead-nodes");
  EXPECT_THAT(
      RunMillrace({"optimize", Wasteful(), "-O1", "--disable-pass", "eliminate-identity"}).out,
      StartsWith("graph wasteful: 4 nodes of 5\n"));
}

TEST(Optimize, GraphsAreDumpedAfterPasses) {
  const std::string all = TestPath("all"), one = TestPath("one");
  const CommandResult result =
      RunMillrace({"optimize", Wasteful(), "-O1", "--verify-each", "--dump-after", "all", all,
                   "--dump-after", "merge-moves", one, "--dump-after", "merge-moves", all + "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadTestFile(all + "/00-input.txt"), HasSubstr("back: b"));
  EXPECT_TRUE(std::filesystem::exists(all + "/05-merge-moves.txt"));
  EXPECT_TRUE(std::filesystem::exists(all + "2/05-merge-moves.txt"));
  EXPECT_FALSE(std::filesystem::exists(one + "/00-input.txt"));
  EXPECT_THAT(ReadTestFile(one + "/05-merge-moves.txt"), HasSubstr("Transpose(x)"));
}

TEST(Optimize, MistakesAreTold) {
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } kMistakes[] = {
      {{"--passes", "merge-move"}, "no pass is called 'merge-move'; did you mean 'merge-moves'?"},
      {{"--disable-pass", "x"}, "no pass is called 'x'; see millrace passes"},
      {{"-O4"}, "-O"},
      {{"-O1", "--passes", "merge-moves"}, "excludes"},
      {{"--dump-after", "merge-moves"}, "--dump-after"},
      {{"--dump-after", "all", "/dev/null/no"}, "--dump-after: /dev/null/no"},
      {{"-o", "/nowhere/g.json"}, "--output"},
      {{"--schedule", "memory"}, "--schedule: that is settled when the graph is planned"},
      {{"--streams", "2"}, "--streams: that is settled when the graph is planned"},
      {{"--device", "cpu:99"}, "cpu:99"},
  };
  for (const auto& [arguments, message] : kMistakes) {
    std::vector<std::string> command = {"optimize", Wasteful()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const CommandResult result = RunMillrace(command);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST(Optimize, FastMathRewritesAsRealNumbersAllow) {
  const std::string path = WriteTestFile(
      "thirds.json", R"({"format": "millrace-graph", "version": "1.0", "name": "thirds",
      "inputs": [{"name": "x", "type": {"dtype": "f32", "shape": [4]}}],
      "constants": [{"name": "three", "type": {"dtype": "f32", "shape": []}, "data": {"splat": 3}}],
      "nodes": [{"name": "y", "op": "Div", "inputs": ["x", "three"], "outputs": ["y"]}],
      "outputs": ["y"]})");
  EXPECT_THAT(RunMillrace({"optimize", path, "-O1", "--text"}).out, HasSubstr("Div(x, three)"));
  const CommandResult fast = RunMillrace({"optimize", path, "-O1", "--fast-math", "--text"});
  EXPECT_THAT(fast.out, HasSubstr("Mul(x, y.Reciprocal)")) << fast.err;
}

TEST(Optimize, APrecisionThatNothingCanBeComputedInIsRefused) {
  const std::string model = SourceFile("tests/data/digits/digits.json");
  for (const char* command : {"optimize", "plan"}) {
    const CommandResult result = RunMillrace({command, model, "--precision", "f16"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--precision f16: nothing can be computed in it"))
        << result.err;
    EXPECT_THAT(result.err, HasSubstr("in f16"));
  }
  EXPECT_EQ(RunMillrace({"plan", model, "--precision", "fp16"}).exit_code, 2);
}

TEST(Explain, SaysWhatWasDoneToANode) {
  const CommandResult whole = RunMillrace({"explain", Wasteful()});
  EXPECT_THAT(whole.out, HasSubstr("'sum' computes all 2 in one program"));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("eliminate-common-subexpressions/share-result"));
  const CommandResult node = RunMillrace({"explain", Wasteful(), "turn"});
  EXPECT_THAT(node.out, HasSubstr("merge-moves/merge-transposes"));
  EXPECT_THAT(node.out, Not(HasSubstr("share-result")));
  EXPECT_THAT(RunMillrace({"explain", Wasteful(), "sum", "-O1"}).out,
              HasSubstr("no rewrite found anything to do"));
  const CommandResult wrong = RunMillrace({"explain", Wasteful(), "tum"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("the graph has no node 'tum'; did you mean 'sum'?"));
}

TEST(Passes, AreListed) {
  EXPECT_THAT(RunMillrace({"passes"}).out, HasSubstr("merge-moves"));
  EXPECT_EQ(RunMillrace({"passes", "--json"}).Json()["passes"][0]["name"], "lower-einsum");
}

}  // namespace
}  // namespace millrace
