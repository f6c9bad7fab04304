// `millrace import`: an ONNX model as a graph file, weights beside it.
#include <map>

#include "absl/strings/str_join.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "ops/onnx/onnx.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/units.h"
#include "tools/value_spec.h"

namespace millrace {
namespace {

struct ImportOptions {
  std::string file;
  std::string output;
  std::vector<std::string> sets;
  std::vector<std::string> constants;  // "sr=i64=16000"
  bool json = false;
};

std::vector<std::string> SymbolNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Symbol& symbol : graph.symbols) names.push_back(symbol.name);
  return names;
}

absl::Status Import(const ImportOptions& options) {
  MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.output), "--output"));
  OnnxImportOptions import;
  MILLRACE_ASSIGN_OR_RETURN(import.symbols, ParseSymbols(options.sets));
  import.allow_open_symbols = true;
  for (const std::string& text : options.constants) {
    MILLRACE_ASSIGN_OR_RETURN(const ValueSpec spec, ParseValueSpec("--constant", text));
    MILLRACE_ASSIGN_OR_RETURN(import.constants[spec.name],
                              ReadValue("--constant", spec, /*max_elements=*/INT64_MAX));
  }
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, ImportOnnx(options.file, import));
  std::map<std::string, int64_t> bound;  // by --set, or by the shape of a constant
  for (const Symbol& symbol : graph.symbols) {
    if (symbol.value >= 0) bound[symbol.name] = symbol.value;
  }
  FixSymbols(bound, graph);
  {
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(SaveGraph(graph, options.output));
  }
  const std::vector<std::string> symbols = SymbolNames(graph);
  if (options.json) {
    Json document = JsonHeader("millrace-import");
    document["file"] = options.file;
    document["output"] = options.output;
    document["nodes"] = graph.nodes.size();
    document["values"] = graph.values.size();
    document["symbols"] = symbols;
    PrintJson(document);
    return absl::OkStatus();
  }
  Print(StrCat(options.output, ": graph of ",
               FormatPlural(static_cast<int64_t>(graph.nodes.size()), "node"), ", ",
               FormatPlural(static_cast<int64_t>(graph.values.size()), "value"), "\n"));
  if (!symbols.empty()) {
    Print(StrCat("symbols, to be given with --set: ", absl::StrJoin(symbols, ", "), "\n"));
  }
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, ImportOptions& options) {
  list.RequiredText("file", "FILE", options.file, "ONNX model");
  list.RequiredText("-o,--output", "FILE", options.output,
                    "Write the graph here, its weights beside it");
  list.Repeated("--set", "N=8", options.sets, "Fix a dynamic dim");
  list.Repeated("--constant", "NAME=SPEC", options.constants,
                "Turn an input into a constant: i64=16000, @x.npy (see run)");
  list.Flag("--json", options.json, "Print what was written as JSON");
}

}  // namespace

void AddImportCommand(CommandLine& line) {
  AddCommand<ImportOptions>(line, "import", "Turn an ONNX model into a graph file", Import,
                            DeclareOptions);
}

}  // namespace millrace
