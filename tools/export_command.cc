// `millrace export`: a graph in a format of others: ONNX.
#include "graph/files.h"
#include "graph/strings.h"
#include "ops/onnx/onnx.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct ExportOptions {
  std::string file;
  std::string format = "onnx";
  std::string output;
  std::vector<std::string> sets;
  bool external_data = false, json = false;
};

absl::Status Export(const ExportOptions& options) {
  if (options.format != "onnx") {
    return UsageError(StrCat("--to ", options.format, ": expected onnx"));
  }
  MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.output), "--output"));
  MILLRACE_ASSIGN_OR_RETURN(const auto symbols, ParseSymbols(options.sets));
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadInferredGraph(options.file, options.sets));
  FixSymbols(symbols, graph);
  std::vector<std::string> notes;
  {
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(
        ExportOnnx(graph, options.output, {.external_data = options.external_data}, &notes));
  }
  if (options.json) {
    Json document = JsonHeader("millrace-export");
    document["file"] = options.file;
    document["output"] = options.output;
    document["nodes"] = graph.nodes.size();
    document["left_out"] = notes;
    PrintJson(document);
    return absl::OkStatus();
  }
  Print(StrCat(options.output, ": ONNX model of ",
               FormatPlural(static_cast<int64_t>(graph.nodes.size()), "node"), "\n"));
  for (const std::string& note : notes) Print(StrCat("left out: ", note, "\n"));
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, ExportOptions& options) {
  list.RequiredText("file", "FILE", options.file, "Graph");
  list.RequiredText("-o,--output", "FILE", options.output, "Write the model here");
  list.Text("--to", "FORMAT", options.format, "Format: onnx [onnx]");
  list.Repeated("--set", "N=8", options.sets, "Fix a symbol of the graph");
  list.Flag("--external-data", options.external_data, "Weights in a file beside the model");
  list.Flag("--json", options.json, "Print what was written as JSON");
}

}  // namespace

void AddExportCommand(CommandLine& line) {
  AddCommand<ExportOptions>(line, "export", "Turn a graph into an ONNX model", Export,
                            DeclareOptions);
}

}  // namespace millrace
