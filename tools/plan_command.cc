// `millrace plan`: compiles a graph for a machine, checks the plan, and shows or saves it.
#include "graph/check/check.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "tools/auto_page.h"
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
#include "tools/sweep_budget.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::string output, dump_kernels;
  MeshRequest auto_mesh;  // where --mesh is "auto..."
  bool inference = false;
  bool text = false, dot = false, json = false;
  bool sweep_budget = false;
};

// What a predicted plan could not honour.
absl::Status CheckAutoOptions(const PlanOptions& options) {
  const PlanningOptions& planning = options.planning;
  const std::pair<const char*, bool> refused[] = {
      {"--output", !options.output.empty()},
      {"--text", options.text},
      {"--dot", options.dot},
      {"--device", !planning.device.empty()},
      {"--threads", planning.threads != 0},
      {"--streams", planning.streams != 0},
      {"--schedule", !planning.schedule.empty()},
      {"--costs", !planning.costs.empty()},
      {"--shard", !planning.shards.empty()},
      {"--zero", planning.zero != 0},
      {"--dump-kernels", !options.dump_kernels.empty()}};
  for (const auto& [name, given] : refused) {
    if (given) {
      return UsageError(StrCat(name,
                               " does not go with --mesh auto, which predicts, without "
                               "--output"));
    }
  }
  return absl::OkStatus();
}

absl::Status RunAutoPlan(const PlanOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckAutoOptions(options));
  MeshRequest request = options.auto_mesh;
  MILLRACE_RETURN_IF_ERROR(ParseAutoMesh(options.planning.mesh, request));
  PartitionRegime regime = {.training = !options.inference};
  const std::string& precision = options.planning.rewrites.precision;
  if (!precision.empty()) {
    const std::optional<DType> dtype = ParseDType(precision);
    if (!dtype || !IsFloat(*dtype)) {
      return UsageError(StrCat("--precision ", precision, ": expected f32, bf16 or f16"));
    }
    regime.dtype = *dtype;
  }
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadPlannedMachine(options.planning));
  MILLRACE_ASSIGN_OR_RETURN(const Graph graph,
                            LoadInferredGraph(options.planning.file, options.planning.sets));
  MILLRACE_ASSIGN_OR_RETURN(const MeshSearch search, SearchMeshes(graph, machine, regime, request));
  if (options.json) {
    PrintJson(AutoJson(graph, machine, regime, request, search));
  } else {
    Print(AutoPage(graph, machine, regime, request, search));
  }
  return absl::OkStatus();
}

absl::Status RunPlan(const PlanOptions& options) {
  if (options.sweep_budget && !options.planning.mesh.empty()) {
    return UsageError("--sweep-budget is of one device, --mesh of several");
  }
  if (options.sweep_budget) return SweepBudget(options.planning, options.json);
  // With a file to write, what is found is planned like a mesh given by hand.
  if (IsAutoMesh(options.planning.mesh) && options.output.empty()) return RunAutoPlan(options);
  const MeshRequest& given = options.auto_mesh;
  if (options.inference || given.devices != 0 || given.samples != 0 || given.interleave != 0) {
    return UsageError(
        "--inference, --devices, --samples and --interleave need --mesh auto, without --output");
  }
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
  list.Count("--devices", options.auto_mesh.devices, 1, 1 << 20,
             "With --mesh auto: so many of the machine's [all]");
  list.Count("--samples", options.auto_mesh.samples, 1, 1 << 20,
             "With --mesh auto: of a microbatch [searched]");
  list.Count("--interleave", options.auto_mesh.interleave, 1, 64,
             "With --mesh auto: chunks of a pipeline stage [1]");
  list.Flag("--inference", options.inference,
            "With --mesh auto: forward only, rather than training with Adam");
  list.Flag("--text", options.text, "Print the whole plan");
  list.Flag("--dot", options.dot, "Print it for Graphviz");
  list.Flag("--json", options.json, "Print the summary as JSON");
  list.Flag("--sweep-budget", options.sweep_budget,
            "Print memory against step time instead, for less and less memory");
  list.AtMostOne({"--sweep-budget", "--output"});
  list.AtMostOne({"--sweep-budget", "--text"});
  list.AtMostOne({"--sweep-budget", "--dot"});
  list.AtMostOne({"--text", "--dot", "--json"});
}

}  // namespace

void AddPlanCommand(CommandLine& line) {
  AddCommand<PlanOptions>(line, "plan", "Plan a graph for a machine, and check the plan", RunPlan,
                          DeclareOptions);
}

}  // namespace millrace
