// `millrace diff`: graphs and plans compared by meaning.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "tests/tools/run_millrace.h"
#include "tests/tools/tiny_graph.h"
#include "tools/graph_diff.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Graph Parsed(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(InferTypes(*graph).ok());
  return *std::move(graph);
}

// "kind where: text" of each difference.
std::vector<std::string> Differences(std::string_view a, std::string_view b) {
  std::vector<std::string> lines;
  for (const Difference& each : DiffGraphs(Parsed(a), Parsed(b)).differences) {
    lines.push_back(StrCat(each.kind, " ", each.where, ": ", each.text));
  }
  return lines;
}

constexpr std::string_view kForked = R"(
  input x : f32[4]
  const two : f32[] = inline [2]
  a = Exp(x)
  b = Mul(x, two)
  y = Add(a, b)
  output y
)";

TEST(DiffGraphs, NamesAndOrderMeanNothing) {
  EXPECT_THAT(Differences(kForked, R"(
    input x : f32[4]
    const zwei : f32[] = inline [2]
    left = Mul(x, zwei)
    right = Exp(x)
    sum = Add(right, left)
    output sum
  )"),
              IsEmpty());
}

TEST(DiffGraphs, OrderOfOperandsMeansSomething) {
  EXPECT_THAT(Differences(kForked, R"(
    input x : f32[4]
    const two : f32[] = inline [2]
    a = Exp(x)
    b = Mul(x, two)
    y = Add(b, a)
    output y
  )"),
              ElementsAre("operand y (Add): input 0: 'a' became 'b'",
                          "operand y (Add): input 1: 'b' became 'a'"));
}

TEST(DiffGraphs, SaysWhereADifferenceArisesAndNotWhatFollows) {
  EXPECT_THAT(Differences("input x : f32[4,2]\na = LeakyRelu(x) {alpha = 0.1}\nb = Exp(a)\n"
                          "c = Neg(b)\noutput c\n",
                          "input x : f32[4,2]\nq = LeakyRelu(x) {alpha = 0.2}\nr = Exp(q)\n"
                          "s = Neg(r)\noutput s\n"),
              ElementsAre("attribute a (LeakyRelu): alpha: 0.1 became 0.2"));
}

TEST(DiffGraphs, ConstantsDifferByTheirData) {
  EXPECT_THAT(Differences(kForked, R"(
    input x : f32[4]
    const two : f32[] = inline [3]
    a = Exp(x)
    b = Mul(x, two)
    y = Add(a, b)
    output y
  )"),
              ElementsAre("constant b (Mul): input 1: 'two' became 'two', of other data"));
}

TEST(DiffGraphs, NodesThatOnlyOneHas) {
  EXPECT_THAT(Differences("input x : f32[4]\na = Exp(x)\nb = Relu(a)\noutput b\n",
                          "input x : f32[4]\na = Exp(x)\nb = Neg(a)\noutput b\n"),
              ElementsAre("node b (Relu): only in A", "node b (Neg): only in B",
                          "output 0: 'b' became 'b'"));
}

TEST(DiffGraphs, WhatIsComputedTwiceDiffersFromOnce) {
  EXPECT_THAT(Differences("input x : f32[4]\na = Exp(x)\ny = Add(a, a)\noutput y\n",
                          "input x : f32[4]\na = Exp(x)\nb = Exp(x)\ny = Add(a, b)\noutput y\n"),
              ElementsAre("node b (Exp): only in B"));
}

TEST(DiffGraphs, InputsParamsTypesAndUpdates) {
  EXPECT_THAT(Differences("input x : f32[4]\nparam w : f32[4] = init zeros seed 0\n"
                          "y = Add(x, w)\nupdate w <- y\noutput y\n",
                          "input x : f32[5]\nparam v : f32[1] = init zeros seed 0\n"
                          "y = Add(x, v)\noutput y\n"),
              ElementsAre("type x: f32[4] became f32[5]", "param w: only in A",
                          "param v: only in B", "operand y (Add): input 1: 'w' became 'v'",
                          "type y: f32[4] became f32[5]", "update w: only in A"));
}

TEST(DiffCommand, SameAndDifferentGraphs) {
  const std::string a = TinyFile();
  const CommandResult same = RunMillrace({"diff", a, a});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.out, "same\n");

  std::string text(kTinyGraph);
  text.replace(text.find("Relu"), 4, "Sigmoid");
  const std::string b = WriteTestFile("other.json", text);
  const CommandResult different = RunMillrace({"diff", a, b, "--json"});
  EXPECT_EQ(different.exit_code, 1);
  EXPECT_EQ(different.Json()["same"], false);
  EXPECT_EQ(different.Json()["differences"][0]["text"], "only in A");
  EXPECT_THAT(different.err, HasSubstr("3 differences"));
}

TEST(DiffCommand, Plans) {
  const std::string small = TestPath("small_plan.json"), large = TestPath("large_plan.json");
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "--set", "N=2", "-o", small}).exit_code, 0);
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "--set", "N=40", "-o", large}).exit_code, 0);
  EXPECT_EQ(RunMillrace({"diff", small, small}).exit_code, 0);
  const CommandResult result = RunMillrace({"diff", small, large});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("f32[2,2] became f32[40,2]"));
  EXPECT_THAT(result.out, HasSubstr("buffer"));
  EXPECT_THAT(result.out, HasSubstr("slice"));
  EXPECT_THAT(result.out, HasSubstr("instruction"));

  const CommandResult mixed = RunMillrace({"diff", small, TinyFile()});
  EXPECT_EQ(mixed.exit_code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("a plan differs from a plan"));
}

// The names of a renamed copy are not told as differences of its instructions.
TEST(DiffCommand, PlansOfRenamedGraphsAreTheSame) {
  std::string text(kTinyGraph);
  for (const char* name : {"\"h\"", "\"mm\""}) {
    for (size_t at = text.find(name); at != text.npos; at = text.find(name)) {
      text.replace(at, std::string_view(name).size(), "\"renamed\"");
    }
  }
  const std::string a = TestPath("a_plan.json"), b = TestPath("b_plan.json");
  ASSERT_EQ(RunMillrace({"plan", TinyFile(), "-o", a}).exit_code, 0);
  ASSERT_EQ(RunMillrace({"plan", WriteTestFile("renamed.json", text), "-o", b}).exit_code, 0);
  const CommandResult result = RunMillrace({"diff", a, b});
  EXPECT_EQ(result.exit_code, 0) << result.out;
}

}  // namespace
}  // namespace millrace
