#include "graph/graph_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "absl/strings/str_replace.h"
#include "graph/builder.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "graph/weights.h"
#include "tests/graph/json_values.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Every feature of the format once, in canonical form; `types` and `bound` left out.
constexpr char kEverything[] = R"json({
  "format": "millrace-graph",
  "version": "1.0",
  "name": "everything",
  "producer": {"by":"hand","n":1.50},
  "opset": {"core": 17, "grad": 1},
  "symbols": {
    "N": {"min": 1, "max": 1024, "multiple_of": 2, "default": 8},
    "M": {}
  },
  "mesh": "data=2,tensor=4",
  "weights": {
    "w": {"path": "deep/w.safetensors"},
    "v": {"path": "v.safetensors", "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
  },
  "inputs": [
    {"name": "x", "type": {"dtype": "f32", "shape": ["N", "N*4+1", 784]}, "doc": "pixels"},
    {"name": "c", "type": {"dtype": "bool", "shape": []}},
    {"name": "rows", "type": {"dtype": "i64", "shape": ["(N + M) / 2"], "bounded": true}}
  ],
  "params": [
    {"name": "fc.w", "type": {"dtype": "f32", "shape": [784, 10]}, "data": {"file": "w", "tensor": "fc.weight"}, "trainable": true},
    {"name": "u", "type": {"dtype": "bf16", "shape": [4, 4]}, "data": {"init": "uniform", "seed": 18446744073709551615, "low": -0.5, "high": 1e+20}, "trainable": true},
    {"name": "n", "type": {"dtype": "f16", "shape": [4]}, "data": {"init": "normal", "seed": 3, "std": 0.02}},
    {"name": "step", "type": {"dtype": "i64", "shape": []}, "data": {"init": "zeros"}}
  ],
  "constants": [
    {"name": "eps", "type": {"dtype": "f32", "shape": []}, "data": {"splat": 1e-05}, "doc": "not \"zero\""},
    {"name": "k", "type": {"dtype": "i64", "shape": [2]}, "data": {"inline": [-9223372036854775808, 9223372036854775807]}},
    {"name": "big", "type": {"dtype": "u64", "shape": [1]}, "data": {"inline": [18446744073709551615]}},
    {"name": "flags", "type": {"dtype": "bool", "shape": [2]}, "data": {"inline": [true, false]}},
    {"name": "odd", "type": {"dtype": "f32", "shape": [6]}, "data": {"inline": [0.1, -0.0, "nan", "inf", "-inf", 1e-45]}},
    {"name": "half", "type": {"dtype": "f16", "shape": [2]}, "data": {"inline": [0.099975586, 65504.0]}},
    {"name": "raw", "type": {"dtype": "f32", "shape": [1]}, "data": {"base64": "AACAPw=="}},
    {"name": "none", "type": {"dtype": "f64", "shape": [0, 3]}, "data": {"inline": []}}
  ],
  "nodes": [
    {"name": "mm", "op": "MatMul", "inputs": ["x", "fc.w"], "outputs": ["h"], "attrs": {"alpha": 1.0, "beta": 1e-07, "bias": "inf", "exact": true, "f": [1.0, "nan"], "mode": "fast", "names": ["a", "b"], "none": [], "perm": [1, -2], "transB": 1}, "scope": "enc/fc"},
    {"name": "act", "op": "Relu", "inputs": ["h"], "outputs": ["y"], "device": "cuda:1", "stream": 2, "origin": ["mm", "old"], "x-note": {"a":[1,2.50]}},
    {"name": "clip", "op": "Clip", "inputs": ["y", null, "eps"], "outputs": ["clipped", null]},
    {"name": "branch", "op": "If", "inputs": ["c", "y"], "outputs": ["z"], "graphs": {
      "then_branch": {
        "inputs": [
          {"name": "y", "type": {"dtype": "f32", "shape": ["N", "N*4+1", 10]}}
        ],
        "constants": [
          {"name": "one", "type": {"dtype": "f32", "shape": []}, "data": {"splat": 1.0}}
        ],
        "nodes": [
          {"name": "add", "op": "Add", "inputs": ["y", "one"], "outputs": ["sum"]}
        ],
        "outputs": ["sum"]
      },
      "else_branch": {
        "name": "no",
        "inputs": [
          {"name": "y", "type": {"dtype": "f32", "shape": ["N", "N*4+1", 10]}}
        ],
        "nodes": [],
        "outputs": ["y"],
        "x-kept": true
      }
    }},
    {"name": "sum", "op": "comm.AllReduce", "inputs": ["z"], "outputs": ["r"], "attrs": {"axis": "data", "op": "sum"}, "after": ["act", "clip"]},
    {"name": "log", "op": "Print", "inputs": ["r"], "outputs": []},
    {"name": "inc", "op": "Inc", "inputs": ["step"], "outputs": ["step2"]}
  ],
  "updates": [
    {"param": "step", "value": "step2"}
  ],
  "outputs": ["r", "clipped"],
  "shardings": {
    "fc.w": "data:0,tensor:1",
    "h": "tensor:partial(sum)"
  },
  "x-first": [1, 2],
  "x-second": null
}
)json";

const GraphLoadOptions kM4 = {.symbols = {{"M", 4}}};

Graph Load(std::string_view json, const GraphLoadOptions& options = {}) {
  absl::StatusOr<Graph> graph = ParseGraphJson(std::string(json), "dir/g.json", options);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : Graph();
}

std::string Errors(std::string_view json, const GraphLoadOptions& options = {}) {
  const absl::StatusOr<Graph> graph = ParseGraphJson(std::string(json), "g.json", options);
  EXPECT_EQ(ExitCode(graph.status()), 3) << graph.status();
  return std::string(graph.status().message());
}

std::string UsageErrors(std::string_view json, const GraphLoadOptions& options) {
  const absl::StatusOr<Graph> graph = ParseGraphJson(std::string(json), "g.json", options);
  EXPECT_EQ(ExitCode(graph.status()), 2) << graph.status();
  return std::string(graph.status().message());
}

// A graph file with the given members beyond format and version.
std::string File(std::string_view members) {
  return StrCat("{\"format\": \"millrace-graph\", \"version\": \"1.0\",\n", members, "}");
}

// A file with one input x : f32[4], the given nodes, and the output `output`.
std::string WithNodes(std::string_view nodes, std::string_view output = "x") {
  return File(
      StrCat("\"inputs\": [{\"name\": \"x\", \"type\": {\"dtype\": \"f32\", \"shape\": [4]}}],\n",
             "\"nodes\": [\n", nodes, "],\n\"outputs\": [\"", output, "\"]"));
}

// A file with one constant, declared as given.
std::string WithConstant(std::string_view type, std::string_view data) {
  return File(
      StrCat("\"inputs\": [], \"nodes\": [], \"outputs\": [\"k\"], \"constants\": [{\"name\": ",
             "\"k\",\n\"type\": ", type, ",\n\"data\": ", data, "}]"));
}

ValueId Find(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].name == name) return ValueId(i);
  }
  ADD_FAILURE() << "no value " << name;
  return ValueId(0);
}

std::vector<std::string> NodeNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

// --- Round trips --------------------------------------------------------------------------------

TEST(GraphJsonTest, TheCanonicalFormIsAFixedPoint) {
  const std::string expected =
      absl::StrReplaceAll(kEverything, {{"\"x-first\": [1, 2]", "\"x-first\": [1,2]"}});
  EXPECT_EQ(GraphToJson(Load(kEverything, kM4)), expected);
}

TEST(GraphJsonTest, SavingThenLoadingGivesTheSameGraph) {
  const Graph graph = Load(kEverything, kM4);
  const Graph again = Load(GraphToJson(graph), kM4);
  EXPECT_TRUE(SameGraph(graph, again)) << ToText(again);
}

TEST(GraphJsonTest, EveryFieldIsRead) {
  const Graph g = Load(kEverything, kM4);
  EXPECT_EQ(g.name, "everything");
  EXPECT_EQ(g.producer, "{\"by\":\"hand\",\"n\":1.50}");
  EXPECT_EQ(g.opset.at("core"), 17);
  EXPECT_EQ(g.directory, "dir");
  EXPECT_EQ(g.mesh.axes.size(), 2u);
  EXPECT_EQ(g.weight_files[1].sha256.size(), 64u);
  EXPECT_EQ(g.extensions[1], (Extension{"x-second", "null"}));

  const Value& x = g.value(g.inputs[0]);
  EXPECT_EQ(x.type, (TensorType{DType::kF32, {8, 33, 784}}));
  EXPECT_EQ(x.position, (FilePosition{17, 14}));
  EXPECT_THAT(g.symbolic_dims.at(g.inputs[0]), ElementsAre("N", "N*4+1", "784"));
  EXPECT_EQ(g.docs.at(g.inputs[0]), "pixels");
  EXPECT_TRUE(g.value(g.inputs[2]).bounded);
  EXPECT_EQ(g.value(g.inputs[2]).type.shape, Shape({6}));

  EXPECT_TRUE(g.value(g.params[0]).trainable);
  EXPECT_FALSE(g.value(g.params[2]).trainable);
  EXPECT_EQ(g.data_of(g.params[0]).tensor_name, "fc.weight");
  EXPECT_EQ(g.data_of(g.params[1]).init.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(g.data_of(g.params[1]).init.low, -0.5);
  EXPECT_EQ(g.data_of(Find(g, "raw")).tensor.data<float>()[0], 1.0f);
  const auto odd = g.data_of(Find(g, "odd")).tensor.data<float>();
  EXPECT_EQ(odd[0], 0.1f);
  EXPECT_TRUE(std::signbit(odd[1]));
  EXPECT_TRUE(std::isnan(odd[2]));
  EXPECT_EQ(odd[4], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(odd[5], std::numeric_limits<float>::denorm_min());

  const Node& mm = g.nodes[0];
  EXPECT_EQ(std::get<double>(*mm.attrs.Find("alpha")), 1.0);
  EXPECT_EQ(std::get<int64_t>(*mm.attrs.Find("transB")), 1);
  EXPECT_EQ(std::get<double>(*mm.attrs.Find("bias")), std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<std::string>(*mm.attrs.Find("mode")), "fast");
  EXPECT_EQ(std::get<bool>(*mm.attrs.Find("exact")), true);
  EXPECT_THAT(std::get<std::vector<int64_t>>(*mm.attrs.Find("perm")), ElementsAre(1, -2));
  EXPECT_TRUE(std::isnan(std::get<std::vector<double>>(*mm.attrs.Find("f"))[1]));
  EXPECT_TRUE(std::holds_alternative<std::vector<int64_t>>(*mm.attrs.Find("none")));
  EXPECT_EQ(mm.scope, "enc/fc");
  const Node& act = g.nodes[1];
  EXPECT_EQ(act.device, "cuda:1");
  EXPECT_EQ(act.stream, 2);
  EXPECT_THAT(act.origin, ElementsAre("mm", "old"));
  EXPECT_THAT(act.extensions, ElementsAre(Extension{"x-note", "{\"a\":[1,2.50]}"}));
  EXPECT_FALSE(g.nodes[2].inputs[1].valid());
  EXPECT_FALSE(g.nodes[2].outputs[1].valid());
  EXPECT_THAT(g.nodes[4].after, ElementsAre(NodeId(1), NodeId(2)));
  EXPECT_EQ(g.nodes[4].position, (FilePosition{64, 5}));
  const Graph& then_branch = g.nodes[3].subgraphs[0].graph;
  EXPECT_EQ(then_branch.value(then_branch.inputs[0]).type.shape, Shape({8, 33, 10}));
  EXPECT_EQ(g.nodes[3].subgraphs[1].graph.name, "no");
  EXPECT_EQ(g.updates[0].param, Find(g, "step"));
  EXPECT_EQ(g.shardings.at(Find(g, "fc.w")).axes[1].dim, 1);
}

TEST(GraphJsonTest, TypesOfResultsAreKeptWithTheirBinding) {
  const std::string typed = File(
      "\"symbols\": {\"N\": {\"max\": 64}},\n"
      "\"inputs\": [{\"name\": \"x\", \"type\": {\"dtype\": \"f32\", \"shape\": [\"N\"]}}],\n"
      "\"nodes\": [{\"op\": \"NonZero\", \"inputs\": [\"x\"], \"outputs\": [\"y\"]}],\n"
      "\"outputs\": [\"y\"],\n"
      "\"types\": {\"y\": {\"dtype\": \"i64\", \"shape\": [1, \"N\"], \"bounded\": true}}");
  const Graph g = Load(typed, {.symbols = {{"N", 8}}});
  EXPECT_TRUE(g.value(Find(g, "y")).typed);
  EXPECT_TRUE(g.value(Find(g, "y")).bounded);
  EXPECT_EQ(g.value(Find(g, "y")).type, (TensorType{DType::kI64, {1, 8}}));

  const std::string saved = GraphToJson(g, /*with_types=*/true);
  EXPECT_THAT(saved, HasSubstr("\"N\": {\"max\": 64, \"bound\": 8}"));
  EXPECT_THAT(saved,
              HasSubstr("\"y\": {\"dtype\": \"i64\", \"shape\": [1, \"N\"], \"bounded\": true}"));
  const Graph again = Load(saved);  // needs no --set: the file says for what it holds
  EXPECT_TRUE(SameGraph(g, again));
  EXPECT_EQ(GraphToJson(again, true), saved);
  EXPECT_EQ(Load(saved, {.symbols = {{"N", 8}}}).symbols[0].value, 8);
  EXPECT_THAT(UsageErrors(saved, {.symbols = {{"N", 16}}}), HasSubstr("was written for N=8"));
}

TEST(GraphJsonTest, NumberingOfValuesLeavesNoTrace) {
  // Built so that results are numbered before the params and inputs that come later.
  GraphBuilder b("built");
  const TensorType type = {DType::kF32, {4}};
  const ValueId x = b.Input("x", type);
  const ValueId y = b.Op("Relu", {x}, {}, "y");
  const ValueId w = b.Param("w", type, InitData({.kind = InitKind::kOnes}));
  b.Output(b.Op("Add", {y, w}, {}, "z"));
  b.graph().mesh = *ParseMesh("d=2");
  b.graph().shardings[y] = *ParseSharding("d:0", b.graph().mesh);
  b.graph().shardings[w] = *ParseSharding("d:0", b.graph().mesh);
  const std::string first = GraphToJson(b.graph());
  EXPECT_EQ(GraphToJson(Load(first)), first);
}

TEST(GraphJsonTest, NaNsWithAPayloadKeepTheirBits) {
  GraphBuilder b("nan");
  const float odd = std::bit_cast<float>(0x7fc12345u);
  const ValueId k = b.Constant("k", Tensor::FromSpan<float>({1}, std::span(&odd, 1)));
  b.Output(k);
  const Graph g = Load(GraphToJson(b.graph()));
  EXPECT_EQ(std::bit_cast<uint32_t>(g.data_of(g.constants[0]).tensor.data<float>()[0]),
            0x7fc12345u);
}

// --- Order of nodes
// -------------------------------------------------------------------------------

TEST(GraphJsonTest, NodesMayStandInAnyOrderAndKeepTheirsWherePossible) {
  const Graph g = Load(WithNodes(R"(
    {"name": "c", "op": "Add", "inputs": ["vb", "va"], "outputs": ["vc"]},
    {"name": "free", "op": "Relu", "inputs": ["x"], "outputs": ["vf"]},
    {"name": "b", "op": "Relu", "inputs": ["va"], "outputs": ["vb"]},
    {"name": "a", "op": "Relu", "inputs": ["x"], "outputs": ["va"]},
    {"name": "last", "op": "Relu", "inputs": ["x"], "outputs": ["vl"], "after": ["c"]})"));
  EXPECT_THAT(NodeNames(g), ElementsAre("a", "b", "c", "free", "last"));
  EXPECT_EQ(g.nodes[0].file_index, 3);
  EXPECT_EQ(g.value(Find(g, "vc")).producer, NodeId(2));
  EXPECT_THAT(g.nodes[4].after, ElementsAre(NodeId(2)));
}

TEST(GraphJsonTest, AnOrderThatIsTopologicalStays) {
  const Graph g = Load(WithNodes(R"(
    {"name": "z", "op": "Relu", "inputs": ["x"], "outputs": ["1"]},
    {"name": "y", "op": "Relu", "inputs": ["x"], "outputs": ["2"]},
    {"name": "w", "op": "Add", "inputs": ["2", "1"], "outputs": ["3"]},
    {"name": "a", "op": "Relu", "inputs": ["1"], "outputs": ["4"], "after": ["y"]})"));
  EXPECT_THAT(NodeNames(g), ElementsAre("z", "y", "w", "a"));
}

TEST(GraphJsonTest, CyclesAreNamed) {
  EXPECT_EQ(
      Errors(WithNodes(
          "{\"name\": \"a\", \"op\": \"Add\", \"inputs\": [\"x\", \"vc\"], \"outputs\": "
          "[\"va\"]},\n"
          "{\"name\": \"b\", \"op\": \"Relu\", \"inputs\": [\"va\"], \"outputs\": [\"vb\"]},\n"
          "{\"name\": \"c\", \"op\": \"Relu\", \"inputs\": [\"vb\"], \"outputs\": [\"vc\"]},\n"
          "{\"name\": \"self\", \"op\": \"Relu\", \"inputs\": [\"x\"], \"outputs\": [\"vs\"], "
          "\"after\": [\"self\"]}")),
      "g.json:4:1: /nodes/0: nodes wait for each other: 'b' -> 'c' -> 'a' -> 'b'\n"
      "g.json:7:1: /nodes/3: nodes wait for each other: 'self' -> 'self'");
}

TEST(GraphJsonTest, ManyCyclesAreNotAllKept) {
  // A chain in which each node also waits for its end: together the cycles have n * n / 2 nodes.
  constexpr int kNodes = 20000;
  std::string nodes =
      "{\"name\": \"n0\", \"op\": \"Relu\", \"inputs\": [\"v1\"], \"outputs\": [\"v0\"]}";
  for (int i = 1; i < kNodes; ++i) {
    StrAppend(&nodes, ",\n{\"name\": \"n", i, "\", \"op\": \"Add\", \"inputs\": [\"v0\", \"",
              i + 1 < kNodes ? StrCat("v", i + 1) : std::string("x"), "\"], \"outputs\": [\"v", i,
              "\"]}");
  }
  const std::string errors = Errors(WithNodes(nodes));
  EXPECT_THAT(errors, HasSubstr("nodes wait for each other: 'n1' -> 'n0' -> 'n1'\n"));
  EXPECT_THAT(errors, HasSubstr("'n20' -> 'n19' -> 'n18' -> 'n17' -> (13 more) -> 'n3' -> 'n2' -> "
                                "'n1' -> 'n0' -> 'n20'"));
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 19);
}

TEST(GraphJsonTest, ALongChainInReverseOrderNeedsNoRecursion) {
  constexpr int kNodes = 50000;
  std::string nodes;
  for (int i = kNodes - 1; i >= 0; --i) {
    StrAppend(&nodes, "{\"op\": \"Relu\", \"inputs\": [\"",
              i == 0 ? std::string("x") : StrCat("v", i - 1), "\"], \"outputs\": [\"v", i, "\"]}",
              i == 0 ? "" : ",\n");
  }
  const Graph g = Load(WithNodes(nodes, StrCat("v", kNodes - 1)));
  ASSERT_EQ(g.nodes.size(), static_cast<size_t>(kNodes));
  EXPECT_EQ(g.nodes[0].name, "v0");
  EXPECT_EQ(g.nodes.back().file_index, 0);
}

TEST(GraphJsonTest, NodesWithoutANameTakeOneThatIsFree) {
  const Graph g = Load(WithNodes(R"(
    {"op": "Relu", "inputs": ["x"], "outputs": ["y"]},
    {"name": "y", "op": "Relu", "inputs": ["x"], "outputs": ["z"]},
    {"op": "Print", "inputs": ["x"], "outputs": []})"));
  EXPECT_THAT(NodeNames(g), ElementsAre("y_1", "y", "print_2"));
}

// --- Symbols ------------------------------------------------------------------------------------

TEST(GraphJsonTest, SymbolsAreBoundByOptionThenDefault) {
  EXPECT_EQ(Load(kEverything, kM4).symbols[0].value, 8);
  const Graph g = Load(kEverything, {.symbols = {{"N", 16}, {"M", 2}}});
  EXPECT_EQ(g.value(g.inputs[0]).type.shape, Shape({16, 65, 784}));
  EXPECT_EQ(g.value(g.inputs[2]).type.shape, Shape({9}));
}

TEST(GraphJsonTest, WrongBindingsAreUsageErrorsThatSayWhatWouldDo) {
  EXPECT_EQ(UsageErrors(kEverything, {}),
            "g.json: symbol 'M' has no value; give one with --set M=... (from 0 to "
            "281474976710656)");
  EXPECT_EQ(UsageErrors(kEverything, {.symbols = {{"N", 7}, {"m", 1}, {"Nn", 1}}}),
            "g.json: --set N=7 is out of range; expected a value from 1 to 1024, a multiple of 2\n"
            "g.json: symbol 'M' has no value; give one with --set M=... (from 0 to "
            "281474976710656)\n"
            "g.json: --set Nn=1: the file has no symbol 'Nn'; did you mean 'N'?\n"
            "g.json: --set m=1: the file has no symbol 'm'");
  EXPECT_THAT(UsageErrors(kEverything, {.symbols = {{"M", -1}}}), HasSubstr("out of range"));
}

TEST(GraphJsonTest, FaultySymbols) {
  const auto errors = [](std::string_view symbol) {
    return Errors(
        File(StrCat("\"symbols\": ", symbol, ", \"inputs\": [], \"nodes\": [], \"outputs\": []")));
  };
  EXPECT_THAT(errors(R"({"N": {"default": 3, "multiple_of": 2}})"),
              HasSubstr("/symbols/N/default: outside the symbol's own range; expected from 0 to "
                        "281474976710656, a multiple of 2, found number 3"));
  EXPECT_THAT(errors(R"({"N": {"min": 5, "max": 4, "default": 5}})"), HasSubstr("range is empty"));
  EXPECT_THAT(errors(R"({"2N": {"default": 5}})"), HasSubstr("not a symbol's name"));
  EXPECT_THAT(errors(R"({"N": {"default": 5, "miin": 1}})"), HasSubstr("did you mean 'min'?"));
  EXPECT_THAT(errors(R"({"N": {"default": 5, "multiple_of": 0}})"), HasSubstr("from 1 to"));
}

TEST(DimExpressionTest, Values) {
  const std::map<std::string, int64_t> symbols = {{"N", 8}, {"M_2", 3}};
  const struct {
    const char* text;
    int64_t value;
  } cases[] = {{"N", 8},         {"12", 12},       {"N*4+1", 33},
               {"1+N*4", 33},    {"(N+1)*2", 18},  {"N*3/2", 12},
               {"N/2/2", 2},     {"N-M_2-1", 4},   {" ( N ) ", 8},
               {"N - M_2", 5},   {"1-N+N", 1},     {"0", 0},
               {"N/(M_2-1)", 4}, {"((((N))))", 8}, {"281474976710656", kMaxBytes}};
  for (const auto& c : cases) {
    const absl::StatusOr<int64_t> value = EvaluateDim(c.text, symbols);
    ASSERT_TRUE(value.ok()) << c.text << ": " << value.status();
    EXPECT_EQ(*value, c.value) << c.text;
  }
}

TEST(DimExpressionTest, Faults) {
  const std::map<std::string, int64_t> symbols = {{"N", 8}, {"batch", 3}, {"Z", 0}};
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"N/3", "dim 'N/3' does not divide exactly: 8 / 3 leaves a remainder"},
      {"N/Z", "divides by zero"},
      {"N/(Z-1)", "divides by -1"},
      {"1-N", "is negative: -7"},
      {"batchs", "names 'batchs', which \"symbols\" does not declare; did you mean 'batch'?"},
      {"", "ends too early"},
      {"N+", "ends too early"},
      {"N N", "has an unexpected 'N'"},
      {"(N", "lacks a ')'"},
      {"N)", "has an unexpected ')'"},
      {"-N", "has '-' where a number or symbol must stand"},
      {"3N", "has '3N', neither a number nor a symbol"},
      {"N%2", "has an unexpected '%'"},
      {"281474976710657", "is too large"},
      {"99999999999999999999", "overflows"},
      {"N*281474976710656*281474976710656", "overflows"},
      {std::string(300, '1'), "is longer than 256 bytes"},
      {std::string(100, '('), "has too many parentheses"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<int64_t> value = EvaluateDim(c.text, symbols);
    EXPECT_EQ(ExitCode(value.status()), 3) << c.text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr(c.message));
  }
}

// --- Faults -------------------------------------------------------------------------------------

TEST(GraphJsonTest, NamesThatAreNotDefinedOrDefinedTwice) {
  EXPECT_EQ(Errors(WithNodes(
                "{\"op\": \"Add\", \"inputs\": [\"x\", \"layer1.biass\"], \"outputs\": [\"y\"]},\n"
                "{\"op\": \"Relu\", \"inputs\": [\"y\"], \"outputs\": [\"layer1.bias\"]},\n"
                "{\"name\": \"n\", \"op\": \"Relu\", \"inputs\": [\"x\"], \"outputs\": [\"y\"]},\n"
                "{\"name\": \"n\", \"op\": \"Relu\", \"inputs\": [\"x\"], \"outputs\": [\"x\"], "
                "\"after\": [\"nn\"]}",
                "nothing.like.it")),
            "g.json:6:58: /nodes/2/outputs/0: value 'y' is defined twice; first at 4:60\n"
            "g.json:7:10: /nodes/3/name: node 'n' is defined twice; first at 6:1\n"
            "g.json:7:58: /nodes/3/outputs/0: value 'x' is defined twice; first at 2:21\n"
            "g.json:4:31: /nodes/0/inputs/1: value 'layer1.biass' is not defined; did you mean "
            "'layer1.bias'?\n"
            "g.json:7:74: /nodes/3/after/0: there is no node 'nn'; did you mean 'n'?\n"
            "g.json:8:13: /outputs/0: value 'nothing.like.it' is not defined");
}

TEST(GraphJsonTest, UnknownAndMissingKeys) {
  const std::string errors =
      Errors(File("\"inputs\": [{\"name\": \"x\", \"type\": {\"dtype\": \"f32\", \"shape\": [], "
                  "\"layout\": \"nhwc\"}, \"x-a\": 1}],\n"
                  "\"ouputs\": [],\n"
                  "\"nodes\": [{\"inputs\": [], \"outputs\": [], \"attributes\": {}}]"));
  EXPECT_THAT(errors,
              HasSubstr("g.json:3:1: /ouputs: unknown key \"ouputs\"; did you mean 'outputs'?"));
  EXPECT_THAT(errors, HasSubstr("key \"outputs\" is missing"));
  EXPECT_THAT(errors, HasSubstr("/inputs/0/type/layout: unknown key \"layout\""));
  EXPECT_THAT(errors, HasSubstr("/inputs/0/x-a: unknown key \"x-a\""));
  EXPECT_THAT(errors, HasSubstr("/nodes/0/attributes: unknown key \"attributes\""));
  EXPECT_THAT(errors, HasSubstr("/nodes/0: key \"op\" is missing"));
}

TEST(GraphJsonTest, AtMostTwentyErrorsAreShownAndAllAreCounted) {
  std::string nodes;
  for (int i = 0; i < 50; ++i) {
    StrAppend(&nodes, i == 0 ? "" : ",\n",
              "{\"op\": \"Relu\", \"inputs\": [\"gone\"], \"outputs\": [\"y", i, "\"]}");
  }
  const std::string errors = Errors(WithNodes(nodes));
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 20);
  EXPECT_THAT(errors, testing::EndsWith("\n... and 30 more"));
}

TEST(GraphJsonTest, SingleFaults) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } cases[] = {
      {"\"1.0\"", "\"2.0\"", "/version: version 2.0 of millrace-graph is not known"},
      {"millrace-graph", "millrace-plan", "/format: not this kind of file"},
      {"\"dtype\": \"bool\"", "\"dtype\": \"boolean\"", "/inputs/1/type/dtype: unknown dtype"},
      {"[\"N\", \"N*4+1\", 784]", "[\"N\", \"N*4+\", 784]",
       "/inputs/0/type/shape/1: dim 'N*4+' ends"},
      {"[\"N\", \"N*4+1\", 784]", "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
       "too many dims; expected at most 8"},
      {"[\"N\", \"N*4+1\", 784]", "[281474976710656, 2]", "the type is too large"},
      {"[\"N\", \"N*4+1\", 784]", "[-1]", "/inputs/0/type/shape/0: not a dim"},
      {"[\"N\", \"N*4+1\", 784]", "[1.0]", "/inputs/0/type/shape/0: wrong kind of value"},
      {"\"mesh\": \"data=2,tensor=4\"", "\"mesh\": \"data=0\"", "/mesh: mesh axis 'data=0'"},
      {"tensor:1", "tesnor:1", "/shardings/fc.w: sharding 'tesnor:1'"},
      {"\"h\": \"tensor", "\"hh\": \"tensor", "/shardings/hh: value 'hh' is not defined"},
      {"data:0,tensor:1", "data:5", "is sharded along dim 5, but has rank 2"},
      {"deep/w.safetensors", "../w.safetensors", "/weights/w/path: not a path of weights"},
      {"deep/w.safetensors", "/w.safetensors", "/weights/w/path: not a path of weights"},
      {"deep/w.safetensors", "w.bin", "/weights/w/path: not a path of weights"},
      {"\"sha256\": \"0", "\"sha256\": \"G", "/weights/v/sha256: not a SHA-256"},
      {"\"file\": \"w\"", "\"file\": \"ww\"", "\"weights\" has no file 'ww'; did you mean 'w'?"},
      {"\"splat\": 1e-05", "\"splat\": \"1\"", "/constants/0/data/splat: wrong kind of value"},
      {"\"splat\": 1e-05", "\"splat\": 1e39", "/constants/0/data/splat: too large for f32"},
      {"[true, false]", "[true, 0]", "/constants/3/data/inline/1: wrong kind of value"},
      {"[true, false]", "[true]", "a flat array of 2 for bool[2], found array of 1"},
      {"65504.0", "65536", "too large for f16"},
      {"[18446744073709551615]", "[-1]", "/constants/2/data/inline/0: out of range"},
      {"AACAPw==", "AACAPw=", "a base64 string of 8 characters for f32[1], found one of 7"},
      {"AACAPw==", "AACAPx==", "not base64"},
      {"AACAPw==", "AAC APw=", "not base64"},
      {"\"base64\": \"AACAPw==\"", "\"base64\": \"AACAPw==\", \"seed\": 1",
       "\"seed\" means nothing with \"base64\""},
      {"\"splat\": 1e-05", "\"splat\": 1.0, \"inline\": [1.0]", "expected exactly one of"},
      {"\"init\": \"zeros\"", "\"init\": \"zeroes\"", "did you mean 'zeros'?"},
      {"\"init\": \"zeros\"", "\"init\": \"normal\"", "random init needs a float dtype, not i64"},
      {"\"std\": 0.02", "\"low\": 0.02", "\"low\" means nothing with init \"normal\""},
      {"\"std\": 0.02", "\"std\": -1.0", "normal init needs std >= 0"},
      {"\"std\": 0.02", "\"std\": \"nan\"", "expected a finite number"},
      {"\"low\": -0.5", "\"low\": 1e+21", "uniform init needs low < high"},
      {"\"transB\": 1", "\"transB\": null", "/nodes/0/attrs/transB: not an attribute"},
      {"\"transB\": 1", "\"transB\": {}", "/nodes/0/attrs/transB: not an attribute"},
      {"\"transB\": 1", "\"transB\": 9223372036854775808", "/attrs/transB: not an attribute"},
      {"[1, -2]", "[1, \"a\"]", "a list of other or mixed elements"},
      {"[1, -2]", "[true]", "a list of other or mixed elements"},
      {"\"MatMul\"", "\"Mat Mul\"", "/nodes/0/op: not the name of an op"},
      {"\"MatMul\"", "\"\"", "/nodes/0/op: the string is empty"},
      {"\"comm.AllReduce\"", "\"a.b.C\"", "/nodes/4/op: not the name of an op"},
      {"\"cuda:1\"", "\"gpu:1\"", "/nodes/1/device: not a device"},
      {"\"stream\": 2", "\"stream\": -1", "/nodes/1/stream: out of range"},
      {"\"param\": \"step\"", "\"param\": \"x\"", "/updates/0/param: 'x' is no param"},
      {"\"value\": \"step2\"", "\"value\": \"h2\"", "/updates/0/value: value 'h2' is not defined"},
      {"\"value\": \"step2\"", "\"vlaue\": \"step2\"", "/updates/0: key \"value\" is missing"},
      {"\"name\": \"no\",", "\"symbols\": {},", "\"symbols\" belongs to the outermost graph only"},
      {"[\"y\", \"one\"]", "[\"y\", \"eps\"]", "a nested graph sees its own values only"},
      {"\"outputs\": [\"r\", \"clipped\"]", "\"outputs\": [\"r\", \"r\"]",
       "/outputs/1: value 'r' is listed twice"},
      {"\"shape\": [784, 10]}", "\"shape\": [784, 10], \"bounded\": true}",
       "/params/0/type/bounded: only inputs and results may have dims that are bounds"},
      {"\"data\": {\"init\": \"zeros\"}", "\"trainable\": false",
       "/params/3: key \"data\" is missing"},
      {"\"doc\": \"pixels\"", "\"data\": {\"splat\": 0}", "an input has no data of its own"},
      {"\"doc\": \"pixels\"", "\"trainable\": true", "only params are trainable"},
      {"\"producer\": {", "\"producer\": [{", "unexpected"},
      {"\"opset\": {\"core\": 17", "\"opset\": {\"core\": 0", "/opset/core: out of range"},
      {"\"x-second\": null", "\"types\": {\"x\": {\"dtype\": \"f32\", \"shape\": []}}",
       "'x' is no result: its type stands where it is declared"},
      {"\"x-second\": null", "\"x-first\": null", "key \"x-first\" is used twice"},
  };
  for (const auto& c : cases) {
    const std::string json = absl::StrReplaceAll(kEverything, {{c.from, c.to}});
    ASSERT_NE(json, kEverything) << c.from;
    EXPECT_THAT(Errors(json, kM4), HasSubstr(c.message)) << c.to;
  }
}

TEST(GraphJsonTest, ErrorsWithinNestedGraphsNameTheirPlace) {
  const std::string json = absl::StrReplaceAll(
      kEverything,
      {{"\"op\": \"Add\", \"inputs\": [\"y\"", "\"op\": \"Add\", \"inputs\": [\"yy\""}});
  EXPECT_EQ(Errors(json, kM4),
            "g.json:50:51: /nodes/3/graphs/then_branch/nodes/0/inputs/0: value 'yy' is not "
            "defined; did you mean 'y'?");
}

TEST(GraphJsonTest, SizesAreCheckedBeforeMemoryIsTaken) {
  const std::string huge = "{\"dtype\": \"f64\", \"shape\": [1048576, 33554432]}";  // 2^48 bytes
  EXPECT_THAT(Errors(WithConstant(huge, "{\"base64\": \"AAAA\"}")),
              HasSubstr("a base64 string of"));
  EXPECT_THAT(Errors(WithConstant(huge, "{\"inline\": [1]}")), HasSubstr("at most 65536 inline"));
  EXPECT_EQ(Load(WithConstant(huge, "{\"splat\": 1.0}")).constants.size(), 1u);
}

TEST(GraphJsonTest, DeepNestingIsRefused) {
  std::string nodes = "";
  for (int i = 0; i < 100; ++i) {
    nodes = StrCat(
        "{\"op\": \"If\", \"inputs\": [], \"outputs\": [], \"graphs\": {\"b\": {\"inputs\": [], "
        "\"nodes\": [",
        nodes, "], \"outputs\": []}}}");
  }
  EXPECT_THAT(Errors(WithNodes(nodes)), HasSubstr("nested more than 64 deep"));
}

TEST(GraphJsonTest, WrongKindsEverywhereAreErrorsNotCrashes) {
  const absl::StatusOr<JsonDocument> document = JsonDocument::Parse(kEverything, "");
  ASSERT_TRUE(document.ok());
  const std::vector<const JsonValue*> values = AllValues(*document);
  const std::string_view text = kEverything;
  size_t refused = 0;
  for (const JsonValue* v : values) {
    for (const char* other : {"null", "-1", "1.5", "\"\"", "[[]]", "{}"}) {
      const std::string json =
          StrCat(text.substr(0, v->offset), other, text.substr(v->offset + v->text_size));
      const absl::StatusOr<Graph> graph = ParseGraphJson(json, "g.json", kM4);
      refused += !graph.ok();
      if (!graph.ok()) continue;
      EXPECT_TRUE(ParseGraphJson(GraphToJson(*graph), "", kM4).ok()) << json;
    }
  }
  EXPECT_GT(refused, values.size() * 4);
}

TEST(GraphJsonTest, AGraphInsideAnotherDocument) {
  const std::string json = StrCat("{\"graph\":\n", kEverything, "}");
  const absl::StatusOr<JsonDocument> document = JsonDocument::Parse(json, "plan.json");
  ASSERT_TRUE(document.ok());
  Diagnostics diagnostics;
  const JsonReader reader = *JsonReader(*document, diagnostics).Required("graph");
  const std::optional<Graph> graph = ReadGraph(reader, kM4);
  ASSERT_TRUE(graph.has_value()) << diagnostics.ToStatus();
  EXPECT_TRUE(SameGraph(*graph, Load(kEverything, kM4)));
  EXPECT_EQ(graph->value(graph->inputs[0]).position, (FilePosition{18, 14}));
  EXPECT_FALSE(ReadGraph(reader).has_value());
  EXPECT_THAT(std::string(diagnostics.ToStatus().message()),
              StartsWith("plan.json:2:1: /graph: symbol 'M' has no value"));
}

}  // namespace
}  // namespace millrace
