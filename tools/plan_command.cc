// `millrace plan`: compiles a graph for a machine, checks the plan, and shows or saves it.
#include "graph/check/check.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/compile.h"
#include "tools/dot.h"
#include "tools/dump_kernels.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/plan_summary.h"
#include "tools/prediction.h"
#include "tools/rewrite_options.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::string output, dump_kernels;
  bool text = false, dot = false, json = false;
};

absl::Status RunPlan(const PlanOptions& options) {
  if (!options.output.empty()) {
    MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.output), "--output"));
  }
  MILLRACE_ASSIGN_OR_RETURN(PlanForMachine result, CompileFile(options.planning));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<CostTable> costs, LoadCosts(options.planning));
  const CheckReport report = CheckPlan(result.plan, AllOpTraits(), &result.machine);
  if (!report.ok()) return CheckFailedError(FormatReport(report));
  const PredictedStep predicted =
      PredictStep(result.plan, result.machine, costs, !options.planning.machine.empty());
  if (!options.output.empty()) {
    const InterruptDeferral deferral;
    MILLRACE_ASSIGN_OR_RETURN(result.plan.graph,
                              SaveWeightsBeside(result.plan.graph, options.output));
    MILLRACE_RETURN_IF_ERROR(SavePlan(result.plan, options.output));
  }
  if (!options.dump_kernels.empty()) {
    MILLRACE_RETURN_IF_ERROR(
        Annotate(DumpKernels(result.plan, options.dump_kernels), "--dump-kernels"));
  }
  if (options.text) {
    Print(ToText(result.plan));
  } else if (options.dot) {
    Print(ToDot(result.plan));
  } else if (options.json) {
    Json document = ToJson(SummarizePlan(result.plan), result.plan);
    document["predicted"] = {{"step_us", predicted.step_us}, {"basis", predicted.basis}};
    document["rewrites"] = RewritesToJson(result.records);
    PrintJson(document);
  } else {
    Print(StrCat(ToText(SummarizePlan(result.plan), result.plan), RewriteSummary(result.records),
                 "\npredicted: ", FormatDuration(predicted.step_us), " a step (", predicted.basis,
                 ")\n", FormatReport(report), "\n"));
  }
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, PlanOptions& options) {
  list.RequiredText("graph", "FILE", options.planning.file, "Graph");
  list.Text("-o,--output", "FILE", options.output, "Write the plan here");
  AddPlanningOptions(list, options.planning);
  list.Text("--dump-kernels", "DIR", options.dump_kernels,
            "Write the sources of its kernels here; cuda devices only");
  list.Flag("--text", options.text, "Print the whole plan");
  list.Flag("--dot", options.dot, "Print it for Graphviz");
  list.Flag("--json", options.json, "Print the summary as JSON");
  list.AtMostOne({"--text", "--dot", "--json"});
}

}  // namespace

void AddPlanCommand(CommandLine& line) {
  AddCommand<PlanOptions>(line, "plan", "Plan a graph for a machine, and check the plan", RunPlan,
                          DeclareOptions);
}

}  // namespace millrace
