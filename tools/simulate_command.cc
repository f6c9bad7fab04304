// `millrace simulate`: plays a plan on a machine that need not be there, and on variations of it.
#include "graph/check/check.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "ops/infer.h"
#include "ops/op_def.h"
#include "passes/analytic_target.h"
#include "runtime/trace.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/compile.h"
#include "tools/interrupt.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/prediction.h"
#include "tools/sim_report.h"
#include "tools/what_if.h"

namespace millrace {
namespace {

struct SimulateOptions {
  PlanningOptions planning;
  std::vector<std::string> what_if;
  std::string trace;
  bool every_copy = false;
  bool json = false;
};

// What is simulated: the plan as planned for the machine as it is.
struct Subject {
  PlanForMachine planned;
  std::string note;
};

// The device a graph is planned for when the user names none: who has GPUs means to use them.
std::string DefaultDevice(const MachineSpec& machine) {
  return CountDevices(machine, "cuda") > 0 ? "cuda:0" : "cpu:0";
}

// A machine that any plan fits, to find out by how much a plan does not fit the real one.
MachineSpec WithoutMemoryLimits(MachineSpec machine) {
  for (DeviceSpec& device : machine.devices) device.memory_bytes = kMaxBytes;
  return machine;
}

absl::StatusOr<Subject> PlanGraph(PlanningOptions options, const ModelFile& file) {
  Subject subject;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t mesh_devices, DevicesOfMesh(options));
  MILLRACE_ASSIGN_OR_RETURN(MachineSpec machine, LoadPlannedMachine(options, mesh_devices));
  if (options.device.empty()) options.device = DefaultDevice(machine);
  MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(options.device));
  absl::StatusOr<std::unique_ptr<Target>> target = MakeTarget(device.first, options.threads);
  if (!target.ok()) {
    subject.note =
        StrCat("(", StdView(target.status().message()), "; planned with one kernel a node)");
    target = std::make_unique<AnalyticTarget>(device.first);
  }
  absl::StatusOr<PlanForMachine> planned = CompileFile(options, file, machine, **target);
  // A budget that was asked for is kept.
  if (options.memory_budget.empty() &&
      ExitCode(planned.status()) == ExitCode(InfeasibleError(""))) {
    planned = CompileFile(options, file, WithoutMemoryLimits(machine), **target);
    if (planned.ok()) planned->machine = std::move(machine);
  }
  MILLRACE_ASSIGN_OR_RETURN(subject.planned, std::move(planned));
  return subject;
}

absl::StatusOr<Subject> LoadSubject(const PlanningOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(options.file));
  if (file.kind != ModelFileKind::kPlan) return PlanGraph(options, file);
  Subject subject;
  MILLRACE_ASSIGN_OR_RETURN(subject.planned, LoadOrCompile(options, file));
  return subject;
}

absl::StatusOr<SimOutcome> OutcomeOf(const PlanBundle& plan, const MachineSpec& machine,
                                     const Prediction& prediction, std::string what) {
  SimOutcome outcome;
  outcome.what = std::move(what);
  outcome.step_us = prediction.step_us;
  const std::vector<LimitShare> limits = LimitsOf(prediction.step);
  outcome.bottleneck = limits.empty() ? "-" : limits[0].limit;
  MILLRACE_ASSIGN_OR_RETURN(outcome.memory, FitOf(plan, machine));
  return outcome;
}

absl::StatusOr<SimReport> Report(const SimulateOptions& options, const Subject& subject) {
  const PlanBundle& plan = subject.planned.plan;
  const MachineSpec& machine = subject.planned.machine;
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<CostTable> costs, LoadCosts(options.planning));
  PriceOptions price;
  if (costs.has_value()) price.costs = &*costs;
  SimReport report;
  report.plan = plan.name;
  report.machine = machine.name;
  report.note = subject.note;
  MILLRACE_ASSIGN_OR_RETURN(report.prediction, Predict(plan, machine, price, options.every_copy));
  MILLRACE_ASSIGN_OR_RETURN(SimOutcome as_it_is, OutcomeOf(plan, machine, report.prediction, ""));
  report.outcomes.push_back(std::move(as_it_is));
  price.measured_machine = &machine;
  for (const std::string& what : options.what_if) {
    MILLRACE_ASSIGN_OR_RETURN(const MachineSpec varied, VaryMachine(machine, what));
    MILLRACE_ASSIGN_OR_RETURN(const Prediction prediction, Predict(plan, varied, price));
    MILLRACE_ASSIGN_OR_RETURN(SimOutcome outcome, OutcomeOf(plan, varied, prediction, what));
    report.outcomes.push_back(std::move(outcome));
  }
  return report;
}

absl::Status Simulate(const SimulateOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(Subject subject, LoadSubject(options.planning));
  PlanBundle& plan = subject.planned.plan;
  // Capacity is part of the answer, not a condition.
  const CheckReport check = CheckPlan(plan, AllOpTraits(), /*machine=*/nullptr);
  if (!check.ok()) return CheckFailedError(FormatReport(check));
  MILLRACE_RETURN_IF_ERROR(InferTypes(plan.graph));
  MILLRACE_ASSIGN_OR_RETURN(const SimReport report, Report(options, subject));
  if (!options.trace.empty()) {
    Tracer tracer;
    AddToTrace(report.prediction.step, plan, tracer);
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(WriteFileAtomically(options.trace, TraceToJson(tracer, plan)));
  }
  if (options.json) {
    PrintJson(ToJson(report, plan));
  } else {
    Print(ToText(report, plan));
  }
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, SimulateOptions& options) {
  list.RequiredText("file", "FILE", options.planning.file, "Plan, or graph to plan");
  AddPlanningOptions(list, options.planning);
  list.Repeated("--what-if", "KEY=VALUE,...", options.what_if,
                "Also on the machine with this changed");
  list.Text("--trace", "FILE", options.trace, "Write the timeline as a Chrome trace here");
  list.Flag("--every-copy", options.every_copy, "Play and trace all devices, not one of each kind");
  list.Flag("--json", options.json, "Print the report as JSON");
  list.Footer(StrCat("A VALUE is a factor (2x) or an amount with its unit. Each KEY is one of\n",
                     WhatIfKeys()));
}

}  // namespace

void AddSimulateCommand(CommandLine& line) {
  AddCommand<SimulateOptions>(line, "simulate", "Play a plan on a machine, real or imagined",
                              Simulate, DeclareOptions);
}

}  // namespace millrace
