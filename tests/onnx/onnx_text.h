// Models for tests, written in ONNX's own text syntax (onnx/defs/parser.h), and what importing them
// gives.
#ifndef MILLRACE_TESTS_ONNX_ONNX_TEXT_H_
#define MILLRACE_TESTS_ONNX_ONNX_TEXT_H_

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "ops/onnx/onnx.h"
#include "ops/onnx/proto.h"

namespace millrace {

// <ir_version: 8, opset_import: ["" : `opset`]> before `text`:
// "g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 1> (x) }", and functions after it. A
// syntax error fails the test.
onnx::ModelProto ModelOf(std::string_view text, int opset = 17);

absl::StatusOr<Graph> Import(const onnx::ModelProto& model, const OnnxImportOptions& options = {});

// The graph in our text form without its first lines (name, opset); the error, if there is one.
std::string ImportedText(std::string_view text, int opset = 17,
                         const OnnxImportOptions& options = {});

// The message of what must fail, with exit code 3; "imported" when it did not.
std::string ImportError(const onnx::ModelProto& model, const OnnxImportOptions& options = {});
std::string ImportError(std::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_TESTS_ONNX_ONNX_TEXT_H_
