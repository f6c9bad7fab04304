// Graphs written as ONNX and read again mean the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "ops/infer.h"
#include "ops/onnx/onnx.h"
#include "tools/run_graph.h"
#include "tests/onnx/onnx_text.h"
#include "tests/temporary_folder.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Graph Inferred(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text, "g.txt");
  EXPECT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(InferTypes(*graph), absl::OkStatus());
  return *std::move(graph);
}

onnx::ModelProto Exported(const Graph& graph, const std::string& path,
                          const OnnxExportOptions& options = {},
                          std::vector<std::string>* notes = nullptr) {
  const absl::Status status = ExportOnnx(graph, path, options, notes);
  EXPECT_EQ(status, absl::OkStatus());
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(*ReadFile(path)));
  return model;
}

constexpr std::string_view kMlp =
    "input x : f32[2,3]\n"
    "param w : f32[3,2] trainable = inline [1, 2, 3, 4, 5, 6]\n"
    "const two : f32[] = splat 2\n"
    "h : f32[2,2] = Gemm(x, w) {transB = 0, alpha = 1}\n"
    "s : f32[2,2] = Mul(h, two)\n"
    "y : u8[2,2] = Cast(s) {to = \"u8\"}\n"
    "output y\noutput s\n";

TEST(OnnxExport, WhatAModelSays) {
  TemporaryFolder folder;
  const onnx::ModelProto model = Exported(Inferred(kMlp), folder.File("m.onnx"));
  EXPECT_EQ(model.opset_import(0).version(), 17);
  ASSERT_EQ(model.graph().node_size(), 3);
  const onnx::NodeProto& gemm = model.graph().node(0);
  EXPECT_EQ(gemm.op_type(), "Gemm");
  EXPECT_EQ(gemm.attribute(0).type(), onnx::AttributeProto::FLOAT);  // alpha, written as 1
  EXPECT_EQ(gemm.attribute(1).type(), onnx::AttributeProto::INT);
  EXPECT_EQ(model.graph().node(2).attribute(0).i(), onnx::TensorProto::UINT8);
  ASSERT_EQ(model.graph().initializer_size(), 2);
  EXPECT_EQ(model.graph().initializer(0).name(), "w");
  EXPECT_EQ(model.graph().initializer(0).raw_data().size(), 24u);
  EXPECT_EQ(model.graph().output(0).type().tensor_type().shape().dim(1).dim_value(), 2);
}

TEST(OnnxExport, ReadAgainItIsTheSameGraph) {
  TemporaryFolder folder;
  const Graph graph = Inferred(kMlp);
  Exported(graph, folder.File("m.onnx"));
  absl::StatusOr<Graph> again = ImportOnnx(folder.File("m.onnx"));
  ASSERT_TRUE(again.ok()) << again.status();
  again->name = graph.name;
  again->opset = graph.opset;
  again->producer = graph.producer;
  std::string before = ToText(graph), after = ToText(*again);
  EXPECT_EQ(after, before.replace(before.find("splat 2.0"), 9, "inline [2.0]"));
}

TEST(OnnxExport, WeightsInAFileOfTheirOwn) {
  TemporaryFolder folder;
  const onnx::ModelProto model =
      Exported(Inferred(kMlp), folder.File("m.onnx"), {.external_data = true});
  const onnx::TensorProto& two = model.graph().initializer(1);
  EXPECT_FALSE(two.has_raw_data());
  EXPECT_EQ(two.external_data(0).value(), "m.onnx.data");
  EXPECT_EQ(two.external_data(1).value(), "64");  // aligned
  absl::StatusOr<Graph> again = ImportOnnx(folder.File("m.onnx"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data_of(again->params[0]).tensor.AsDouble(5), 6);
}

TEST(OnnxExport, SymbolsStayDynamic) {
  TemporaryFolder folder;
  const absl::StatusOr<Graph> imported =
      Import(ModelOf("g (float[batch,3] x) => (y) { y = Relu(x) }"), {.symbols = {{"batch", 4}}});
  ASSERT_TRUE(imported.ok());
  const onnx::ModelProto model = Exported(*imported, folder.File("m.onnx"));
  const auto& in = model.graph().input(0).type().tensor_type().shape();
  EXPECT_EQ(in.dim(0).dim_param(), "batch");
  EXPECT_EQ(in.dim(1).dim_value(), 3);
  const auto& out = model.graph().output(0).type().tensor_type().shape();
  EXPECT_EQ(out.dim_size(), 2);
  EXPECT_FALSE(out.dim(0).has_dim_value());  // 4 holds for one binding only
}

// Bodies are open in ONNX: they read what is around them by its name, and hide no names.
TEST(OnnxExport, Bodies) {
  TemporaryFolder folder;
  const Graph graph = Inferred(
      "input c : bool[]\ninput x : f32[2]\n"
      "y = If(c, x) graph then_branch {\n  input a : f32[2]\n  x = Relu(a)\n  output x\n"
      "} graph else_branch {\n  input a : f32[2]\n  output a\n}\noutput y\n");
  const onnx::ModelProto model = Exported(graph, folder.File("m.onnx"));
  const onnx::NodeProto& node = model.graph().node(0);
  EXPECT_EQ(node.input_size(), 1);
  const onnx::GraphProto& then_branch = node.attribute(0).g();
  EXPECT_EQ(then_branch.input_size(), 0);
  EXPECT_EQ(then_branch.node(0).input(0), "x");
  EXPECT_EQ(then_branch.node(0).output(0), "x_1");
  const onnx::GraphProto& else_branch = node.attribute(1).g();
  EXPECT_EQ(else_branch.node(0).op_type(), "Identity");
  EXPECT_EQ(else_branch.node(0).input(0), "x");

  const Tensor x = Tensor::Of<float>({2}, {-1, 2});
  const absl::StatusOr<Graph> again = ImportOnnx(folder.File("m.onnx"));
  ASSERT_TRUE(again.ok()) << again.status();
  for (const bool condition : {false, true}) {
    const std::map<std::string, Tensor> inputs = {{"c", Tensor::Scalar(condition)}, {"x", x}};
    const auto before = RunGraph(graph, inputs), after = RunGraph(*again, inputs);
    ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
    EXPECT_TRUE(BitEqual((*before)[0], (*after)[0]));
  }
}

TEST(OnnxExport, OpsetOfTheYoungestOp) {
  TemporaryFolder folder;
  const Graph graph = Inferred(
      "input x : f32[2,4]\nh = Gelu(x)\nm = ReduceMean(h) {axes = [1]}\n"
      "a, b = Split(h) {axis = 1}\noutput m\noutput a\noutput b\n");
  const onnx::ModelProto model = Exported(graph, folder.File("m.onnx"));
  EXPECT_EQ(model.opset_import(0).version(), 20);
  EXPECT_EQ(model.graph().node(1).input_size(), 2);  // axes are an operand there
  EXPECT_EQ(model.graph().node(2).attribute(1).name(), "num_outputs");
  const absl::StatusOr<Graph> again = ImportOnnx(folder.File("m.onnx"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(ToText(*again), HasSubstr("m : f32[2,1] = ReduceMean(h) {axes = [1]}"));
}

TEST(OnnxExport, OpsOfOurOwnHaveTheirDomain) {
  TemporaryFolder folder;
  const Graph graph = Inferred(
      "input i : i64[3]\ninput dy : f32[3,2]\n"
      "dx = grad.Gather(dy, i) {axis = 0, size = 4}\noutput dx\n");
  std::vector<std::string> notes;
  const onnx::ModelProto model = Exported(graph, folder.File("m.onnx"), {}, &notes);
  EXPECT_EQ(model.graph().node(0).domain(), "millrace.grad");
  EXPECT_EQ(model.graph().node(0).op_type(), "Gather");
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("the meaning of grad.Gather")));
  const absl::StatusOr<Graph> again = ImportOnnx(folder.File("m.onnx"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->nodes[0].op, "grad.Gather");
}

TEST(OnnxExport, WhatOnnxCannotSayIsTold) {
  TemporaryFolder folder;
  std::vector<std::string> notes;
  Exported(Inferred("input x : f32[2]\ny = Relu(x) device \"cpu:0\" stream 0\noutput y\n"),
           folder.File("m.onnx"), {}, &notes);
  EXPECT_THAT(notes, testing::ElementsAre("the placement of 1 nodes"));
  const absl::Status refused = ExportOnnx(
      Inferred("param p : f32[2] = splat 0\nq = Relu(p)\nupdate p <- q\n"), folder.File("n.onnx"));
  EXPECT_EQ(ExitCode(refused), 3);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ONNX models have no state"));
}

}  // namespace
}  // namespace millrace
