#include "graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/verify.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// Everything the text form can say, as Print writes it.
constexpr char kEverythingText[] = R"(graph everything
producer "{\"tool\":\"hand\"}"
opset core = 1
symbol N = 8 min 1 max 1024 multiple_of 4 default 16
weights w = "a/b.safetensors" sha256 "00ff"
mesh "data=2,tensor=4"
input x : f32[8,4]
input "odd name" : i64[]
param p : f32[4,4] trainable = file w "layer.0 weight"
param state : bf16[2] = init normal seed 18446744073709551615 low 0.0 high 1.0 std 0.02
const k : i64[2] = inline [3, -4]
const nan : f32[3] = inline [nan, -inf, 0.1]
const big : u64[1] = inline [18446744073709551615]
const flags : bool[2] = inline [true, false]
const raw : f64[1] = base64 "AAAAAAAA8D8="
const eps : f32[] = splat 1e-05
h : f32[8,4] = MatMul(x, p) {transB = 1, name = "q\"", alpha = 1.0, on = true, a = [], b = [1, -2], c = [0.5, nan], d = ["x"]}
mm: _, low : i64[8,1] bounded = Top(h, _, k) after [h] device "cuda:0" stream 3 scope "a/b" origin ["n1", "n 2"] extension x-note = "{\"a\":1}"
"input": "f32" = Relu(h)
nothing: = Print(h)
y : f32[8,4] = If(flags, h) graph then_branch {
  graph then
  input a : f32[8,4]
  t = Relu(a)
  output t
} graph else_branch {
  input a : f32[8,4]
  t : f32[8,4] = If(a) graph then_branch {
    output_ = Zero()
    output output_
  }
  output t
}
update p <- y
output y
output low
dims x = ["N", "4"]
sharding x = "data:0"
doc y = "the\nresult"
extension x-top = "[1,2]"
)";

std::string Canonical(std::string text) {
  // Attributes print sorted by name.
  const std::string written =
      R"({transB = 1, name = "q\"", alpha = 1.0, on = true, a = [], b = [1, -2], c = [0.5, nan], d = ["x"]})";
  const std::string sorted =
      R"({a = [], alpha = 1.0, b = [1, -2], c = [0.5, nan], d = ["x"], name = "q\"", on = true, transB = 1})";
  const size_t at = text.find(written);
  return at == std::string::npos ? text : text.replace(at, written.size(), sorted);
}

TEST(GraphText, ParseThenPrintIsTheIdentity) {
  const auto graph = ParseGraphText(kEverythingText, "everything.txt");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToText(*graph), Canonical(kEverythingText));
  const auto again = ParseGraphText(ToText(*graph));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(SameGraph(*graph, *again));
}

TEST(GraphText, ParsedGraphHasTheParts) {
  const auto graph = ParseGraphText(kEverythingText);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->inputs.size(), 2u);
  EXPECT_EQ(graph->nodes.size(), 5u);
  const Node& top = graph->nodes[1];
  EXPECT_EQ(top.name, "mm");
  EXPECT_EQ(top.op, "Top");
  EXPECT_FALSE(top.outputs[0].valid());
  EXPECT_TRUE(graph->value(top.outputs[1]).bounded);
  EXPECT_FALSE(top.inputs[1].valid());
  EXPECT_EQ(top.after, std::vector<NodeId>{NodeId(0)});
  EXPECT_EQ(graph->nodes[2].name, "input");
  EXPECT_EQ(graph->value(graph->nodes[2].outputs[0]).name, "f32");
  EXPECT_EQ(graph->nodes[4].subgraphs[1].graph.nodes[0].subgraphs[0].name, "then_branch");
  EXPECT_EQ(graph->data_of(graph->params[1]).init.seed, UINT64_MAX);
  EXPECT_EQ(graph->data_of(graph->constants[4]).tensor.AsDouble(0), 1.0);
}

TEST(GraphText, CommentsBlankLinesAndSpacesDoNotCount) {
  const auto graph =
      ParseGraphText("\n\n# a comment\n  input   x :f32[ 2 ,3]  # more\n\n\noutput x");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToText(*graph), "input x : f32[2,3]\noutput x\n");
}

TEST(GraphText, PrintingRenumbersToAFixedPoint) {
  GraphBuilder b("g");
  const ValueId k = b.Constant("k", Tensor::Scalar(1.0f));
  const ValueId x = b.Input("x", {DType::kF32, Shape{}});  // after the constant, printed before
  b.graph().docs[x] = "x";
  b.graph().docs[k] = "k";
  b.Output(b.Op("Add", {x, k}, {}, "y"));
  const std::string text = ToText(b.graph());
  const auto parsed = ParseGraphText(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(ToText(*parsed), text);
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(GraphText, ErrorsSayWhereAndWhat) {
  const BadText kCases[] = {
      {"input x : f32[2\n", "f.txt:1:16: expected ',', found the end of the line"},
      {"input x : f33[2]", "f.txt:1:11: expected a type, found 'f33'"},
      {"input x : f32[1,1,1,1,1,1,1,1,1]", "a shape has at most 8 dims"},
      {"input x : f32[281474976710656,2]", "the type is too large"},
      {"input x : f32[1]\ninput x : f32[1]", "f.txt:2:7: value 'x' is defined twice"},
      {"y = Relu(x)", "f.txt:1:10: value 'x' is not defined above"},
      {"y = Relu(y)", "value 'y' is not defined above"},
      {"input x : f32[1]\ny = Relu(x) z", "f.txt:2:13: expected the end of the line, found 'z'"},
      {"const k : i64[2] = inline [1]", "expected 2 elements, not 1"},
      {"const k : i64[1] = inline [1, 2]", "the type has only 1 elements"},
      {"const k : i8[1] = inline [300]", "the number is no i8"},
      {"const k : f32[99999999999] = inline [1]", "expected 99999999999 elements, not 1"},
      {"doc \"x", "f.txt:1:5: a string does not end on its line"},
      {"}", "there is no graph to close"},
      {"y = If() graph g {\n", "expected '}', found the end of the text"},
      {"sharding x = \"data:0\"", "value 'x' is not defined above"},
      {"input x : f32[1]\nsharding x = \"data:0\"", "the mesh has no axis 'data'"},
      {"= Relu()", "the node has no name"},
      {"a: = P()\na: = P()", "f.txt:2:1: node 'a' is defined twice"},
      {"symbol N = 99999999999999999999", "expected an integer"},
  };
  for (const BadText& c : kCases) {
    const auto graph = ParseGraphText(c.text, "f.txt");
    ASSERT_FALSE(graph.ok()) << c.text;
    EXPECT_EQ(ExitCode(graph.status()), 3);
    EXPECT_THAT(graph.status().message(), HasSubstr(c.message)) << c.text;
  }
}

TEST(GraphText, DeepNestingIsRefusedNotFollowed) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "y = If() graph g {\n";
  const auto graph = ParseGraphText(text);
  EXPECT_THAT(graph.status().message(), HasSubstr("nested too deep"));
}

TEST(GraphText, EveryPrefixOfATextIsHandled) {
  const std::string text = kEverythingText;
  for (size_t n = 0; n < text.size(); ++n) {
    const auto graph = ParseGraphText(text.substr(0, n));  // must return, with or without an error
    if (graph.ok()) {
      EXPECT_TRUE(ParseGraphText(ToText(*graph)).ok()) << n;
    }
  }
}

}  // namespace
}  // namespace millrace
