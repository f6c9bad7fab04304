// `millrace explain`: what was done to a graph, or to one node of it, what was not, and why not.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/compile.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct ExplainOptions {
  PlanningOptions planning;
  std::string node;
  bool json = false;
};

bool Names(const RewriteRecord& record, const std::string& node) {
  return std::ranges::find(record.nodes, node) != record.nodes.end();
}

// UsageError when neither the rewritten graph nor a rewrite knows the node.
absl::Status CheckNode(const std::string& node, const RewrittenGraph& rewritten) {
  std::vector<std::string> names;
  for (const Graph* graph : FlattenGraphs(rewritten.graph)) {
    for (const Node& each : graph->nodes) names.push_back(each.name);
  }
  for (const RewriteRecord& record : rewritten.records) {
    names.insert(names.end(), record.nodes.begin(), record.nodes.end());
  }
  if (std::ranges::find(names, node) != names.end()) return absl::OkStatus();
  const std::string hint = DidYouMean(node, names);
  return UsageError(StrCat("the graph has no node '", node, "'", hint.empty() ? "" : "; ", hint));
}

std::string RecordTable(const std::vector<RewriteRecord>& records) {
  Table table({"", "rewrite", "nodes", "what came of it"});
  for (const RewriteRecord& record : records) {
    table.Row({record.applied ? "done" : "not done", StrCat(record.pass, "/", record.rule),
               absl::StrJoin(record.nodes, ", "), record.result});
  }
  return table.ToString();
}

absl::Status Explain(const ExplainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(RewrittenGraph rewritten, RewriteFile(options.planning));
  std::vector<RewriteRecord>& records = rewritten.records;
  if (!options.node.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckNode(options.node, rewritten));
    std::erase_if(records, [&](const RewriteRecord& r) { return !Names(r, options.node); });
  }
  if (options.json) {
    Json document = JsonHeader("millrace-explain");
    document["file"] = options.planning.file;
    document["rewrites"] = RewritesToJson(records);
    PrintJson(document);
    return absl::OkStatus();
  }
  const std::string what =
      options.node.empty() ? StrCat("graph ", rewritten.graph.name) : StrCat("node ", options.node);
  if (records.empty()) {
    Print(StrCat(what, ": no rewrite found anything to do\n"));
    return absl::OkStatus();
  }
  Print(StrCat(what, ": ", FormatPlural(std::ssize(records), "rewrite"), "\n\n",
               RecordTable(records)));
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, ExplainOptions& options) {
  list.RequiredText("graph", "FILE", options.planning.file, "Graph");
  list.Text("node", "NODE", options.node, "Only what has to do with this node");
  AddPlanningOptions(list, options.planning);
  list.Flag("--json", options.json, "Print it as JSON");
}

}  // namespace

void AddExplainCommand(CommandLine& line) {
  AddCommand<ExplainOptions>(line, "explain", "Say what was done to a graph, and why", Explain,
                             DeclareOptions);
}

}  // namespace millrace
