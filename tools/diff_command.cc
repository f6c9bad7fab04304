// `millrace diff`: how two graphs, or two plans, differ in meaning.
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/graph_diff.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/plan_diff.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct DiffOptions {
  std::string a, b;
  std::vector<std::string> sets;
  bool json = false;
};

absl::StatusOr<std::vector<Difference>> FindDifferences(const DiffOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile a, OpenModelFile(options.a));
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile b, OpenModelFile(options.b));
  const bool plan_a = a.kind == ModelFileKind::kPlan, plan_b = b.kind == ModelFileKind::kPlan;
  if (plan_a != plan_b) {
    return UsageError(StrCat("'", plan_a ? options.a : options.b, "' is a plan, '",
                             plan_a ? options.b : options.a,
                             "' a graph; a plan differs from a plan, a graph from a graph"));
  }
  if (!plan_a) {
    MILLRACE_ASSIGN_OR_RETURN(const Graph graph_a, LoadInferredGraph(a, options.sets));
    MILLRACE_ASSIGN_OR_RETURN(const Graph graph_b, LoadInferredGraph(b, options.sets));
    return DiffGraphs(graph_a, graph_b).differences;
  }
  if (!options.sets.empty()) return UsageError("--set: the symbols of a plan are bound already");
  MILLRACE_ASSIGN_OR_RETURN(const PlanBundle bundle_a, ParsePlanJson(*a.document));
  MILLRACE_ASSIGN_OR_RETURN(const PlanBundle bundle_b, ParsePlanJson(*b.document));
  return DiffPlans(bundle_a, bundle_b);
}

void PrintDifferences(const DiffOptions& options, const std::vector<Difference>& differences) {
  if (options.json) {
    Json document = JsonHeader("millrace-diff");
    document["a"] = options.a;
    document["b"] = options.b;
    document["same"] = differences.empty();
    document["differences"] = Json::array();
    for (const Difference& each : differences) {
      document["differences"].push_back(
          {{"kind", each.kind}, {"where", each.where}, {"text", each.text}});
    }
    PrintJson(document);
    return;
  }
  if (differences.empty()) {
    Print("same\n");
    return;
  }
  Table table({"", "", ""});
  for (const Difference& each : differences) table.Row({each.kind, each.where, each.text});
  Print(table.ToString());
}

absl::Status Diff(const DiffOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Difference> differences, FindDifferences(options));
  PrintDifferences(options, differences);
  if (differences.empty()) return absl::OkStatus();
  return CheckFailedError(
      StrCat(options.a, " and ", options.b, ": ",
             FormatPlural(static_cast<int64_t>(differences.size()), "difference")));
}

void DeclareDiffOptions(OptionList& list, DiffOptions& options) {
  list.RequiredText("a", "A", options.a, "Graph or plan");
  list.RequiredText("b", "B", options.b, "Another");
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of both graphs");
  list.Flag("--json", options.json, "Print as JSON");
}

}  // namespace

void AddDiffCommand(CommandLine& line) {
  AddCommand<DiffOptions>(line, "diff", "Compare two graphs, or two plans, by meaning", Diff,
                          DeclareDiffOptions);
}

}  // namespace millrace
