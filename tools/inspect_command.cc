// `millrace inspect`: what is in a graph or a plan.
#include "graph/plan_json.h"
#include "graph/text.h"
#include "tools/command.h"
#include "tools/dot.h"
#include "tools/graph_summary.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/plan_summary.h"

namespace millrace {
namespace {

struct InspectOptions {
  std::string file;
  std::vector<std::string> sets;
  bool text = false, dot = false, json = false;
};

absl::Status InspectGraph(const InspectOptions& options, const ModelFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(const Graph graph, LoadInferredGraph(file, options.sets));
  if (options.text) {
    Print(ToText(graph));
  } else if (options.dot) {
    Print(ToDot(graph));
  } else if (options.json) {
    PrintJson(ToJson(SummarizeGraph(graph), graph));
  } else {
    Print(ToText(SummarizeGraph(graph), graph));
  }
  return absl::OkStatus();
}

absl::Status InspectPlan(const InspectOptions& options, const ModelFile& file) {
  if (!options.sets.empty()) return UsageError("--set: the symbols of a plan are bound already");
  MILLRACE_ASSIGN_OR_RETURN(const PlanBundle plan, ParsePlanJson(*file.document));
  if (options.text) {
    Print(ToText(plan));
  } else if (options.dot) {
    Print(ToDot(plan));
  } else if (options.json) {
    PrintJson(ToJson(SummarizePlan(plan), plan));
  } else {
    Print(ToText(SummarizePlan(plan), plan));
  }
  return absl::OkStatus();
}

absl::Status Inspect(const InspectOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(options.file));
  return file.kind == ModelFileKind::kPlan ? InspectPlan(options, file)
                                           : InspectGraph(options, file);
}

void DeclareOptions(OptionList& list, InspectOptions& options) {
  list.RequiredText("file", "FILE", options.file, "Graph or plan");
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of the graph");
  list.Flag("--text", options.text, "All of it, as text");
  list.Flag("--dot", options.dot, "All of it, for Graphviz");
  list.Flag("--json", options.json, "The summary as JSON");
  list.AtMostOne({"--text", "--dot", "--json"});
}

}  // namespace

void AddInspectCommand(CommandLine& line) {
  AddCommand<InspectOptions>(line, "inspect", "Show what is in a graph or a plan", Inspect,
                             DeclareOptions);
}

}  // namespace millrace
