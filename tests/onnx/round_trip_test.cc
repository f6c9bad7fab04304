// Nodes of every op, exported and imported, are what they were. With MILLRACE_EXPORT_FOLDER set,
// the models stay there with inputs and outputs, for tests/onnx/check_exports.py to run them on
// ONNX Runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "graph/builder.h"
#include "graph/graph_json.h"
#include "graph/npy.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "ops/onnx/onnx.h"
#include "ops/op_def.h"
#include "tools/run_graph.h"
#include "tests/ops/evaluate.h"
#include "tests/ops/op_cases.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

// The case as a graph: operands that the host reads are constants, others inputs.
struct CaseGraph {
  Graph graph;
  std::vector<std::pair<std::string, Tensor>> inputs;
};

CaseGraph GraphOf(const optest::OpCase& c, DType floats) {
  const OpDef& op = *FindOp(c.op);
  GraphBuilder builder("case");
  CaseGraph result;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].has_data()) {
      operands.emplace_back();
      continue;
    }
    const Tensor tensor =
        c.inputs[i].dtype() == DType::kF64 ? optest::Converted(c.inputs[i], floats) : c.inputs[i];
    const auto& host = op.traits.host_inputs;
    const std::string name = StrCat("x", i);
    if (std::find(host.begin(), host.end(), static_cast<int>(i)) != host.end()) {
      operands.push_back(builder.Constant(name, tensor));
    } else {
      operands.push_back(builder.Input(name, tensor.type()));
      result.inputs.emplace_back(name, tensor);
    }
  }
  while (!operands.empty() && !operands.back().valid()) operands.pop_back();
  const Node& node = builder.AddNode(c.op, operands, c.attrs, "y", c.num_outputs);
  for (const ValueId output : std::vector<ValueId>(node.outputs)) builder.Output(output);
  result.graph = std::move(builder).Build();
  return result;
}

// Without what a file says of itself, and without what is added for others to read it: the size of
// states, results of training that nobody asked for.
std::string BodyOf(Graph graph, size_t num_outputs) {
  Attrs& attrs = graph.nodes[0].attrs;
  attrs.Erase("hidden_size");
  if (attrs.Int("seed", 0) == 0) attrs.Erase("seed");  // the default, which must be said in ONNX
  graph.nodes[0].outputs.resize(num_outputs);
  const std::string text = ToText(graph);
  return text.substr(std::min({text.find("input "), text.find("const "), text.find("\ny") + 1}));
}

std::string FileName(const std::string& name) {
  std::string file;
  for (const char c : name) file.push_back(absl::ascii_isalnum(c) || c == '.' ? c : '_');
  return file;
}

// For check_exports.py; ops of our own are ours to know.
void Keep(const CaseGraph& c, const std::string& name, const std::string& folder) {
  std::vector<Tensor> inputs;
  for (const auto& [input, tensor] : c.inputs) inputs.push_back(tensor);
  const auto outputs = optest::Evaluate(c.graph, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const std::string path = StrCat(folder, "/", FileName(name));
  std::filesystem::create_directories(path);
  ASSERT_EQ(ExportOnnx(c.graph, path + "/model.onnx"), absl::OkStatus());
  for (const auto& [input, tensor] : c.inputs) {
    ASSERT_TRUE(WriteNpy(StrCat(path, "/", input, ".npy"), tensor).ok());
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    ASSERT_TRUE(WriteNpy(StrCat(path, "/output_", i, ".npy"), (*outputs)[i]).ok());
  }
}

void ExpectSameResults(const CaseGraph& c, const Graph& again) {
  std::vector<Tensor> inputs;
  for (const auto& [input, tensor] : c.inputs) inputs.push_back(tensor);
  const auto before = optest::Evaluate(c.graph, inputs), after = optest::Evaluate(again, inputs);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  for (size_t i = 0; i < before->size(); ++i) {
    EXPECT_LE(optest::MaxError((*after)[i], (*before)[i]), 1e-6) << "output " << i;
  }
}

TEST(OnnxRoundTrip, EveryCaseOfEveryOp) {
  const char* kept = std::getenv("MILLRACE_EXPORT_FOLDER");
  for (const optest::OpCase& each : optest::OpCases()) {
    SCOPED_TRACE(each.name);
    // Programs name the types of their operands.
    const bool has_program = each.attrs.Find("program") != nullptr ||
                             each.attrs.Find("epilogue") != nullptr;
    CaseGraph c = GraphOf(each, has_program ? DType::kF64 : DType::kF32);
    ASSERT_EQ(InferTypes(c.graph), absl::OkStatus());
    const absl::StatusOr<std::string> model = ToOnnx(c.graph);
    ASSERT_TRUE(model.ok()) << model.status();
    const absl::StatusOr<Graph> again = ParseOnnx(*model, "m.onnx");
    ASSERT_TRUE(again.ok()) << again.status();
    const std::string before = BodyOf(c.graph, each.num_outputs);
    if (each.op.ends_with("Resize") && BodyOf(*again, each.num_outputs) != before) {
      // Dims that it keeps are left out of it (layer_rules.cc); constants come in another order.
      ExpectSameResults(c, *again);
    } else {
      EXPECT_EQ(BodyOf(*again, each.num_outputs), before);
    }
    if (kept != nullptr && each.op.find('.') == std::string::npos) Keep(c, each.name, kept);
  }
}

// The trained sample: every output bit, and what training may change.
TEST(OnnxRoundTrip, DigitsModel) {
  TemporaryFolder folder;
  absl::StatusOr<Graph> digits = LoadGraph(
      StrCat(MILLRACE_SOURCE_DIR, "/tests/data/digits/digits.json"), {.symbols = {{"N", 3}}});
  ASSERT_TRUE(digits.ok()) << digits.status();
  ASSERT_EQ(InferTypes(*digits), absl::OkStatus());
  ASSERT_EQ(ExportOnnx(*digits, folder.File("m.onnx")), absl::OkStatus());
  const absl::StatusOr<Graph> again = ImportOnnx(folder.File("m.onnx"), {.symbols = {{"N", 3}}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->params.size(), digits->params.size());
  const std::map<std::string, Tensor> inputs = {
      {"image", optest::RandomTensor({DType::kF32, {3, 1, 8, 8}}, 7, 0, 16)}};
  const auto before = RunGraph(*digits, inputs), after = RunGraph(*again, inputs);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_TRUE(BitEqual((*before)[0], (*after)[0]));
}

}  // namespace
}  // namespace millrace
