// Model files as the user names them: a graph or a plan, told apart by their "format".
#ifndef MILLRACE_TOOLS_MODEL_FILE_H_
#define MILLRACE_TOOLS_MODEL_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

enum class ModelFileKind { kGraph, kPlan };

// ".onnx" files are graphs. Of others, reads no further than the "format" member, which comes first in files of our own. What is not
// JSON, or says nothing, is taken for a graph: its loader tells what is wrong. BadInputError for
// another "millrace-..." format.
absl::StatusOr<ModelFileKind> DetectModelFile(const std::string& path);

// "--set N=8" arguments by name; UsageError for malformed or repeated ones.
absl::StatusOr<std::map<std::string, int64_t>> ParseSymbols(const std::vector<std::string>& sets);

bool IsOnnxFile(const std::string& path);  // by its name

// A graph file or an ONNX model; loaded, verified and inferred: every value has a type.
absl::StatusOr<Graph> LoadInferredGraph(const std::string& path,
                                        const std::vector<std::string>& sets);

// The dims that these symbols stand for become the numbers they are bound to, for good.
void FixSymbols(const std::map<std::string, int64_t>& symbols, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_MODEL_FILE_H_
