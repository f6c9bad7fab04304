// Inference on graphs in the text form, with results and messages as text.
#ifndef MILLRACE_TESTS_OPS_INFER_SUPPORT_H_
#define MILLRACE_TESTS_OPS_INFER_SUPPORT_H_

#include <string>
#include <string_view>

#include "graph/strings.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "ops/infer.h"

namespace millrace::optest {

inline Graph Parse(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text, "g.txt");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

// The types of results after inference, "y:f32[2] z:?", in the order of values.
inline std::string ResultTypes(const Graph& graph) {
  std::string types;
  for (const Value& v : graph.values) {
    if (v.kind != ValueKind::kResult) continue;
    StrAppend(&types, types.empty() ? "" : " ", v.name, ":", v.typed ? ToString(v.type) : "?",
              v.bounded ? " bounded" : "");
  }
  return types;
}

inline std::string TypesOf(std::string_view text) {
  Graph graph = Parse(text);
  const absl::Status status = InferTypes(graph);
  return status.ok() ? ResultTypes(graph) : std::string(StdView(status.message()));
}

// The diagnostics of a graph that is wrong, without the file's name, which is "g.txt" throughout.
inline std::string ErrorsOf(std::string_view text) {
  Graph graph = Parse(text);
  std::string message(StdView(InferTypes(graph).message()));
  for (size_t at; (at = message.find("g.txt:")) != std::string::npos;) message.erase(at, 6);
  return message;
}

// What inference says of a node whose operands are f32 of these shapes; "" when nothing is wrong.
inline std::string ErrorOf(std::string_view op, const Attrs& attrs,
                           const std::vector<Shape>& inputs, int num_outputs = 1) {
  NodeQuery query{std::string(op), attrs, {}, {}};
  for (const Shape& shape : inputs) query.inputs.push_back(TensorType{DType::kF32, shape});
  query.outputs.resize(num_outputs, TensorType{});
  return std::string(StdView(InferOutputs(query, {}).status().message()));
}

}  // namespace millrace::optest

#endif  // MILLRACE_TESTS_OPS_INFER_SUPPORT_H_
