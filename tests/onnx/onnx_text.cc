#include "tests/onnx/onnx_text.h"

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "graph/strings.h"
#include "graph/text.h"

namespace millrace {

onnx::ModelProto ModelOf(std::string_view text, int opset) {
  onnx::ModelProto model;
  const std::string whole =
      StrCat("<ir_version: 8, opset_import: [\"\" : ", opset, ", \"local\" : 1]>\n", text);
  const auto status = onnx::OnnxParser::Parse(model, whole.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage() << "\nin " << text;
  return model;
}

absl::StatusOr<Graph> Import(const onnx::ModelProto& model, const OnnxImportOptions& options) {
  return ParseOnnx(model.SerializeAsString(), "m.onnx", options);
}

std::string ImportedText(std::string_view text, int opset, const OnnxImportOptions& options) {
  const absl::StatusOr<Graph> graph = Import(ModelOf(text, opset), options);
  if (!graph.ok()) return std::string(StdView(graph.status().message()));
  const std::string printed = ToText(*graph);
  const std::string_view kOpset = "opset core = 17\n";
  const size_t header = printed.find(kOpset);
  return header == std::string::npos ? printed : printed.substr(header + kOpset.size());
}

std::string ImportError(const onnx::ModelProto& model, const OnnxImportOptions& options) {
  const absl::StatusOr<Graph> graph = Import(model, options);
  if (graph.ok()) return "imported";
  EXPECT_EQ(ExitCode(graph.status()), 3) << graph.status();
  return std::string(StdView(graph.status().message()));
}

std::string ImportError(std::string_view bytes) {
  const absl::StatusOr<Graph> graph = ParseOnnx(bytes, "m.onnx");
  if (graph.ok()) return "imported";
  EXPECT_EQ(ExitCode(graph.status()), 3) << graph.status();
  return std::string(StdView(graph.status().message()));
}

}  // namespace millrace
