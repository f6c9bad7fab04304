// `millrace check`: everything that is wrong with a graph or a plan, or that nothing is.
#include "absl/strings/str_split.h"
#include "graph/check/check.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "ops/op_def.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct CheckOptions {
  std::string file;
  std::string machine;
  std::vector<std::string> sets;
  bool json = false;
};

Json Header(const CheckOptions& options, bool ok) {
  Json document = JsonHeader("millrace-check");
  document["file"] = options.file;
  document["ok"] = ok;
  return document;
}

// The graph, if it and its weight files are right.
absl::StatusOr<Graph> LoadWholeGraph(const CheckOptions& options, const ModelFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadInferredGraph(file, options.sets));
  Diagnostics diagnostics;
  VerifyWeights(graph, diagnostics);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return graph;
}

absl::Status CheckGraphFile(const CheckOptions& options, const ModelFile& file) {
  if (!options.machine.empty()) return UsageError("--machine: only plans are made for a machine");
  const absl::StatusOr<Graph> graph = LoadWholeGraph(options, file);
  if (absl::IsInvalidArgument(graph.status())) return graph.status();  // the command, not the file
  if (options.json) {
    Json document = Header(options, graph.ok());
    document["errors"] =
        graph.ok() ? Json::array()
                   : Json(std::vector<std::string>(absl::StrSplit(graph.status().message(), '\n')));
    PrintJson(document);
  } else if (graph.ok()) {
    Print(StrCat("ok: graph of ", FormatPlural(static_cast<int64_t>(graph->nodes.size()), "node"),
                 ", ", FormatPlural(static_cast<int64_t>(graph->values.size()), "value"), "\n"));
  }
  return graph.status();
}

absl::Status CheckPlanFile(const CheckOptions& options, const ModelFile& file) {
  if (!options.sets.empty()) return UsageError("--set: the symbols of a plan are bound already");
  MILLRACE_ASSIGN_OR_RETURN(const PlanBundle plan, ParsePlanJson(*file.document));
  Diagnostics diagnostics;
  VerifyWeights(plan.graph, diagnostics, "/graph");
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  std::optional<MachineSpec> machine;
  if (!options.machine.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(machine, LoadMachine(options.machine));
  }
  const CheckReport report =
      CheckPlan(plan, AllOpTraits(), machine.has_value() ? &*machine : nullptr);
  if (options.json) {
    Json document = Header(options, report.ok());
    document["total_errors"] = report.total_errors;
    document["instructions"] = report.instructions;
    document["accesses"] = report.accesses;
    document["errors"] = Json::array();
    for (const PlanError& error : report.errors) {
      document["errors"].push_back(
          {{"rule", std::string(PlanRuleName(error.rule))}, {"message", error.message}});
    }
    PrintJson(document);
  } else if (report.ok()) {
    Print(FormatReport(report) + "\n");
  }
  return report.ok() ? absl::OkStatus() : CheckFailedError(FormatReport(report));
}

absl::Status Check(const CheckOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(options.file));
  return file.kind == ModelFileKind::kPlan ? CheckPlanFile(options, file)
                                           : CheckGraphFile(options, file);
}

void DeclareOptions(OptionList& list, CheckOptions& options) {
  list.RequiredText("file", "FILE", options.file, "Graph or plan");
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of the graph");
  list.Text("--machine", "FILE", options.machine, "Machine whose capacities a plan must keep to");
  list.Flag("--json", options.json, "Print the report as JSON");
}

}  // namespace

void AddCheckCommand(CommandLine& line) {
  AddCommand<CheckOptions>(line, "check", "Say everything that is wrong with a graph or a plan",
                           Check, DeclareOptions);
}

}  // namespace millrace
