// `millrace bisect`: the one rewrite that makes a result wrong.
#include "absl/strings/str_join.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/find_wrong_rewrite.h"
#include "tools/interrupt.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/rewrite_options.h"

namespace millrace {
namespace {

struct BisectOptions {
  std::string file;
  std::string output;
  std::vector<std::string> sets;
  int64_t seed = 1;
  RewriteOptions rewrites;
  bool json = false;
};

std::string RecordText(const RewriteRecord& record) {
  return StrCat(record.rule, " [", absl::StrJoin(record.nodes, ", "), "]: ", record.result);
}

void PrintFinding(const BisectOptions& options, const std::optional<WrongRewrite>& found) {
  if (options.json) {
    Json document = JsonHeader("millrace-bisect");
    document["file"] = options.file;
    document["wrong"] = found.has_value();
    if (found) {
      document["pass"] = found->pass;
      document["execution"] = found->execution;
      document["executions"] = found->executions;
      document["rewrites"] = RewritesToJson(found->records);
      document["mismatch"] = found->mismatch;
      document["smallest"] = ToText(found->smallest);
      document["output"] = options.output;
    }
    PrintJson(document);
    return;
  }
  if (!found) {
    Print("no rewrite is wrong: the rewritten graph means what the graph does\n");
    return;
  }
  std::string text =
      StrCat("pass ", found->pass, ", change ", found->execution, " of ", found->executions, "\n");
  for (const RewriteRecord& record : found->records)
    StrAppend(&text, "  ", RecordText(record), "\n");
  StrAppend(&text, "  ", found->mismatch, "\n\nthe smallest graph that it makes wrong:\n\n",
            ToText(found->smallest));
  Print(text);
}

absl::Status Bisect(const BisectOptions& options) {
  if (!options.output.empty()) {
    MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.output), "--output"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Graph graph, LoadInferredGraph(options.file, options.sets));
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadMachineOrDetect("", 1));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Target> target, MakeTarget("cpu"));
  CompileOptions compile;
  MILLRACE_RETURN_IF_ERROR(ApplyRewriteOptions(options.rewrites, graph, compile));
  const RewriteFn rewrite = [&](Graph& rewritten, const RunPassesOptions& running) {
    // Dumps that were asked for are written too.
    CompileOptions both = compile;
    both.running.after = [&](const Pass& pass, const Graph& after, bool changed) -> absl::Status {
      if (compile.running.after) {
        MILLRACE_RETURN_IF_ERROR(compile.running.after(pass, after, changed));
      }
      return running.after(pass, after, changed);
    };
    return RewriteGraph(rewritten, machine, *target, both).status();
  };
  PassContext context;
  context.machine = &machine;
  context.target = target.get();
  MILLRACE_ASSIGN_OR_RETURN(
      const std::optional<WrongRewrite> found,
      FindWrongRewrite(graph, rewrite, context, static_cast<uint64_t>(options.seed)));
  if (found && !options.output.empty()) {
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(SaveGraph(found->smallest, options.output));
  }
  PrintFinding(options, found);
  if (!found) return absl::OkStatus();
  return CheckFailedError(StrCat("pass ", found->pass, " changes what the graph means"));
}

void DeclareBisectOptions(OptionList& list, BisectOptions& options) {
  list.RequiredText("graph", "FILE", options.file, "Graph");
  list.Text("-o,--output", "FILE", options.output, "Write the smallest graph that shows it here");
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of the graph");
  list.Count("--seed", options.seed, int64_t{0}, INT64_MAX, "Of inputs [1]");
  AddRewriteOptions(list, options.rewrites);
  list.Flag("--json", options.json, "Print as JSON");
}

}  // namespace

void AddBisectCommand(CommandLine& line) {
  AddCommand<BisectOptions>(line, "bisect", "Find the rewrite that makes a result wrong", Bisect,
                            DeclareBisectOptions);
}

}  // namespace millrace
