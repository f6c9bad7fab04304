// ONNX files: read into a Graph, written from one. Models of opset 1 to 24 are brought to the
// engine's own meaning (ops/README.md) while they are read.
#ifndef MILLRACE_OPS_ONNX_ONNX_H_
#define MILLRACE_OPS_ONNX_ONNX_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

struct OnnxImportOptions {
  // --set batch=8. A name the model lacks is a UsageError; so is a symbol that has no value.
  std::map<std::string, int64_t> symbols = {};
  // Symbols without a value stay open: the graph can be saved, not run, and is not inferred.
  bool allow_open_symbols = false;
  // Inputs whose values are known while planning, by name: they become constants.
  std::map<std::string, Tensor> constants = {};
};

// Reads a model; the graph is inferred and verified. Dynamic dims become symbols: "batch_size" by
// its name, an unnamed dim 2 of input x as "x_2". Weights of floats become params (trainable, but
// for running statistics), others constants; raw data are not copied, external data are mapped.
// Errors (BadInputError): up to 20 at once, each with its byte and the path of its node.
absl::StatusOr<Graph> ImportOnnx(const std::string& path, const OnnxImportOptions& options = {});

// The same from bytes. `file` is for messages; external data are looked for in its folder.
absl::StatusOr<Graph> ParseOnnx(std::string_view bytes, const std::string& file,
                                const OnnxImportOptions& options = {});

// A file that holds one tensor (TensorProto), as test data do.
absl::StatusOr<Tensor> ReadOnnxTensor(const std::string& path);

struct OnnxExportOptions {
  // Weights in a file of their own beside the model ("model.onnx.data"). Models that would pass the
  // 2 GiB that protobuf allows get one anyway.
  bool external_data = false;
};

// Writes an inferred graph: opset 17, or a later one where an op needs it. Dims that are symbols
// stay so. Ops of our own go by the domain "millrace.grad" and so on, which ParseOnnx reads again
// and others do not know. `notes` (may be null) gets a sentence for each thing that ONNX cannot
// express and the file leaves out: placement, shardings. BadInputError for what changes results:
// updates of params.
absl::Status ExportOnnx(const Graph& graph, const std::string& path,
                        const OnnxExportOptions& options = {},
                        std::vector<std::string>* notes = nullptr);

// The same as bytes, weights inside.
absl::StatusOr<std::string> ToOnnx(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_OPS_ONNX_ONNX_H_
