#include "tools/model_file.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "ops/infer.h"
#ifdef MILLRACE_HAVE_ONNX
#include "ops/onnx/onnx.h"
#endif

namespace millrace {

absl::StatusOr<ModelFile> OpenModelFile(const std::string& path) {
  ModelFile file;
  file.path = path;
  if (path.ends_with(".onnx")) {
    file.kind = ModelFileKind::kOnnx;
    return file;
  }
  MILLRACE_ASSIGN_OR_RETURN(file.document, JsonDocument::Load(path));
  const JsonValue* format = file.document->Find(file.document->root(), "format");
  const std::string_view name =
      format != nullptr && format->kind == JsonKind::kString ? format->string() : "";
  if (name == "millrace-plan") {
    file.kind = ModelFileKind::kPlan;
  } else if (name.starts_with("millrace-") && name != "millrace-graph") {
    Diagnostics diagnostics;
    JsonReader(*file.document, diagnostics, *format)
        .Error("not a model", "\"millrace-graph\" or \"millrace-plan\"", StrCat("\"", name, "\""));
    return diagnostics.ToStatus();
  }
  return file;
}

absl::StatusOr<std::map<std::string, int64_t>> ParseSymbols(const std::vector<std::string>& sets) {
  std::map<std::string, int64_t> symbols;
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    int64_t value = 0;
    if (equals == 0 || equals == std::string::npos ||
        !absl::SimpleAtoi(set.substr(equals + 1), &value)) {
      return UsageError(StrCat("--set ", set, ": expected NAME=INTEGER, such as N=8"));
    }
    if (!symbols.emplace(set.substr(0, equals), value).second) {
      return UsageError(StrCat("--set ", set, ": '", set.substr(0, equals), "' is set twice"));
    }
  }
  return symbols;
}

void FixSymbols(const std::map<std::string, int64_t>& symbols, Graph& graph) {
  const auto is_number = [](const std::string& dim) { return dim[0] >= '0' && dim[0] <= '9'; };
  for (auto at = graph.symbolic_dims.begin(); at != graph.symbolic_dims.end();) {
    auto& [id, dims] = *at;
    for (std::string& dim : dims) {
      if (const auto found = symbols.find(dim); found != symbols.end()) dim = StrCat(found->second);
    }
    at = std::all_of(dims.begin(), dims.end(), is_number) ? graph.symbolic_dims.erase(at)
                                                          : std::next(at);
  }
  std::erase_if(graph.symbols, [&](const Symbol& symbol) { return symbols.contains(symbol.name); });
}

void FixAllSymbols(Graph& graph) {
  graph.symbols.clear();
  graph.symbolic_dims.clear();
  for (Node& node : graph.nodes) {
    for (Subgraph& body : node.subgraphs) FixAllSymbols(body.graph);
  }
}

absl::StatusOr<Graph> LoadInferredGraph(const ModelFile& file,
                                        const std::vector<std::string>& sets) {
  GraphLoadOptions options;
  MILLRACE_ASSIGN_OR_RETURN(options.symbols, ParseSymbols(sets));
  if (file.kind == ModelFileKind::kOnnx) {
#ifdef MILLRACE_HAVE_ONNX
    return ImportOnnx(file.path, {.symbols = options.symbols});
#else
    return UsageError(StrCat(file.path, ": this build reads no ONNX files (MILLRACE_ONNX is off)"));
#endif
  }
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, ParseGraphJson(*file.document, options));
  MILLRACE_RETURN_IF_ERROR(InferTypes(graph));
  return graph;
}

absl::StatusOr<Graph> LoadInferredGraph(const std::string& path,
                                        const std::vector<std::string>& sets) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(path));
  return LoadInferredGraph(file, sets);
}

}  // namespace millrace
