// `millrace optimize`: rewrites a graph and writes what came of it, a graph again.
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "tools/command.h"
#include "tools/compile.h"
#include "tools/dot.h"
#include "tools/interrupt.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct OptimizeOptions {
  PlanningOptions planning;
  std::string output;
  bool text = false, dot = false, json = false;
};

absl::Status Optimize(const OptimizeOptions& options) {
  if (!options.output.empty()) {
    MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.output), "--output"));
  }
  MILLRACE_ASSIGN_OR_RETURN(RewrittenGraph result, RewriteFile(options.planning));
  // What was computed holds for the sizes that symbols were bound to.
  FixAllSymbols(result.graph);
  MILLRACE_RETURN_IF_ERROR(CheckPrecision(options.planning.rewrites, result.records));
  if (!options.output.empty()) {
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(SaveGraph(result.graph, options.output));
  }
  const int64_t nodes = NumNodes(result.graph);
  if (options.text) {
    Print(ToText(result.graph));
  } else if (options.dot) {
    Print(ToDot(result.graph));
  } else if (options.json) {
    Json document = JsonHeader("millrace-optimize");
    document["file"] = options.planning.file;
    document["output"] = options.output;
    document["nodes_before"] = result.nodes_before;
    document["nodes"] = nodes;
    document["rewrites"] = RewritesToJson(result.records);
    PrintJson(document);
  } else {
    Print(StrCat("graph ", result.graph.name, ": ", FormatPlural(nodes, "node"), " of ",
                 FormatCount(result.nodes_before), "\n", RewriteSummary(result.records)));
  }
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, OptimizeOptions& options) {
  list.RequiredText("graph", "FILE", options.planning.file, "Graph");
  list.Text("-o,--output", "FILE", options.output, "Write the optimized graph here");
  AddPlanningOptions(list, options.planning);
  list.Flag("--text", options.text, "Print the optimized graph");
  list.Flag("--dot", options.dot, "Print it for Graphviz");
  list.Flag("--json", options.json, "Print what was done as JSON");
  list.AtMostOne({"--text", "--dot", "--json"});
}

}  // namespace

void AddOptimizeCommand(CommandLine& line) {
  AddCommand<OptimizeOptions>(line, "optimize", "Rewrite a graph to run faster", Optimize,
                              DeclareOptions);
}

}  // namespace millrace
