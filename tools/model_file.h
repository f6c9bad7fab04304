// Model files as the user names them: graphs, plans and ONNX models.
#ifndef MILLRACE_TOOLS_MODEL_FILE_H_
#define MILLRACE_TOOLS_MODEL_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/json_document.h"
#include "graph/status.h"

namespace millrace {

enum class ModelFileKind { kGraph, kPlan, kOnnx };

// A file that was told apart by its name (".onnx") or its "format", and read: only once, so that it
// may be a pipe.
struct ModelFile {
  ModelFileKind kind = ModelFileKind::kGraph;
  std::string path;
  std::optional<JsonDocument> document;  // but for kOnnx
};

// BadInputError for what is not JSON, and for formats other than "millrace-graph" and
// "millrace-plan". A document without a format is taken for a graph: its loader tells what is
// wrong.
absl::StatusOr<ModelFile> OpenModelFile(const std::string& path);

// "--set N=8" arguments by name; UsageError for malformed or repeated ones.
absl::StatusOr<std::map<std::string, int64_t>> ParseSymbols(const std::vector<std::string>& sets);

// A graph file or an ONNX model; loaded, verified and inferred: every value has a type.
absl::StatusOr<Graph> LoadInferredGraph(const ModelFile& file,
                                        const std::vector<std::string>& sets);
absl::StatusOr<Graph> LoadInferredGraph(const std::string& path,
                                        const std::vector<std::string>& sets);

// The dims that these symbols stand for become the numbers they are bound to, for good.
void FixSymbols(const std::map<std::string, int64_t>& symbols, Graph& graph);
// All of them, in nested graphs too: for graphs that hold for what their symbols were bound to.
void FixAllSymbols(Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_MODEL_FILE_H_
