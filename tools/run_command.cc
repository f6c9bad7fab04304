// `millrace run`: runs a graph or a plan on given inputs, and says what came of it and how long it
// took.
#include <algorithm>
#include <chrono>

#include "graph/check/check.h"
#include "graph/files.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "runtime/session.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/compile.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/prediction.h"
#include "tools/run_report.h"
#include "tools/run_request.h"
#include "tools/value_spec.h"
#include "tools/workers.h"

namespace millrace {
namespace {

constexpr int64_t kMaxSteps = 10'000'000;

struct RunOptions {
  PlanningOptions planning;
  std::string offload;
  RunRequestTexts request;
  WorkerOptions workers;
  double rtol = 1e-4, atol = 1e-5;
  int64_t iterations = 1, warmup = 0;
  bool profile = false;
  std::string trace;
  bool json = false;
};

class Stopwatch {
 public:
  double ElapsedUs() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

absl::StatusOr<Tensor> ReadResult(Session& session, const std::string& name) {
  const Graph& graph = session.plan().graph;
  const std::vector<std::string> outputs = NamesOf(graph, graph.outputs);
  const bool output = std::find(outputs.begin(), outputs.end(), name) != outputs.end();
  return output ? session.Output(name) : session.Param(name);
}

// Warm-up, then the steps that count.
absl::Status RunSteps(const RunOptions& options, Session& session, Tracer& tracer,
                      RunReport& report) {
  const InterruptDeferral deferral;
  for (int64_t i = -options.warmup; i < options.iterations; ++i) {
    if (i == 0) tracer.Clear();
    const Stopwatch watch;
    MILLRACE_RETURN_IF_ERROR(session.Run());
    if (i >= 0) report.step_us.push_back(watch.ElapsedUs());
    if (InterruptedExitCode() != 0) return absl::CancelledError("interrupted");
  }
  return session.Finish();
}

// Reads, writes and compares what was asked for.
absl::Status CollectResults(const RunOptions& options, const RunRequest& request,
                            const RunData& data, bool silent, Session& session, RunReport& report) {
  const InterruptDeferral deferral;  // finish what is begun
  for (const std::string& name : NamesOf(session.plan().graph, session.plan().graph.outputs)) {
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, session.Output(name));
    report.outputs.push_back({name, std::move(tensor)});
  }
  for (const ValueSpec& spec : request.outputs) {
    MILLRACE_ASSIGN_OR_RETURN(const Tensor tensor, ReadResult(session, spec.name));
    if (!silent) MILLRACE_RETURN_IF_ERROR(WriteValue(spec, tensor));
  }
  for (size_t i = 0; i < request.expects.size(); ++i) {
    ExpectReport expect;
    expect.name = request.expects[i].name;
    expect.rtol = options.rtol;
    expect.atol = options.atol;
    expect.expected = data.expected[i];
    MILLRACE_ASSIGN_OR_RETURN(expect.actual, ReadResult(session, expect.name));
    absl::StatusOr<Comparison> comparison =
        Compare(expect.actual, expect.expected, options.rtol, options.atol);
    MILLRACE_RETURN_IF_ERROR(Annotate(comparison.status(), StrCat("--expect ", expect.name)));
    expect.comparison = *comparison;
    report.expects.push_back(std::move(expect));
  }
  for (size_t i = 0; i < request.labels.size(); ++i) {
    LabelsReport labels;
    labels.name = request.labels[i].name;
    MILLRACE_ASSIGN_OR_RETURN(const Tensor scores, session.Output(labels.name));
    labels.all = ArgMaxAccuracy(scores, data.labels[i]);
    labels.every = request.every;
    labels.remainder = request.remainder;
    if (labels.every > 0) {
      labels.held_out = ArgMaxAccuracy(scores, data.labels[i], labels.every, labels.remainder);
    }
    report.labels.push_back(std::move(labels));
  }
  return absl::OkStatus();
}

absl::Status RunAs(const RunOptions& options, Job* job) {
  RunReport report;
  MILLRACE_ASSIGN_OR_RETURN(const RunRequest request, ParseRunRequest(options.request));
  if (!options.trace.empty()) {
    MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(options.trace), "--trace"));
  }

  const Stopwatch load;
  PlanningOptions planning = options.planning;
  planning.needs_weights = true;
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(planning.file));
  MILLRACE_ASSIGN_OR_RETURN(PlanForMachine planned, LoadOrCompile(planning, file));
  const MachineSpec& machine = planned.machine;
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<CostTable> costs, LoadCosts(options.planning));
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan checked,
                            CheckedPlan::Check(std::move(planned.plan), AllOpTraits(), &machine));
  report.load_us = load.ElapsedUs();
  MILLRACE_ASSIGN_OR_RETURN(const RunData data, ReadRunData(request, checked.plan()));

  const Stopwatch prepare;
  MILLRACE_ASSIGN_OR_RETURN(const BoundDevices devices,
                            BoundDevices::Bind(checked.plan(), machine, options.offload, job));
  Tracer tracer;
  SessionOptions session_options;
  session_options.communicator = devices.communicator();
  if (options.profile || !options.trace.empty()) session_options.tracer = &tracer;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(std::move(checked), devices.table(), session_options));
  report.prepare_us = prepare.ElapsedUs();

  const Graph& graph = session->plan().graph;
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(session->SetInput(graph.value(graph.inputs[i]).name, data.inputs[i]));
  }
  report.predicted =
      PredictStep(session->plan(), machine, costs, !options.planning.machine.empty());
  MILLRACE_RETURN_IF_ERROR(RunSteps(options, *session, tracer, report));

  report.plan = session->plan().name;
  report.hash = ContentHash(session->plan());
  report.device_bytes = session->DeviceBytes();
  MILLRACE_RETURN_IF_ERROR(CollectResults(options, request, data, IsSilent(job), *session, report));
  if (options.profile) report.profile = ProfileByNode(tracer, session->plan(), options.iterations);
  if (!options.trace.empty() && !IsSilent(job)) {
    const InterruptDeferral deferral;
    MILLRACE_RETURN_IF_ERROR(
        WriteFileAtomically(options.trace, TraceToJson(tracer, session->plan())));
  }
  if (options.json) {
    PrintJson(ToJson(report));
  } else {
    Print(ToText(report));
  }
  return CheckExpectations(report);
}

absl::Status Run(const RunOptions& options) {
  return RunAsWorker(options.workers, [&](Job* job) { return RunAs(options, job); });
}

void DeclareOptions(OptionList& list, RunOptions& options) {
  RunRequestTexts& request = options.request;
  list.RequiredText("file", "FILE", options.planning.file, "Graph or plan");
  list.Repeated("--input", "x=VALUE", request.inputs, "An input; '*' is all others");
  list.Repeated("--output", "y=@x.npy", request.outputs, "Write an output or param");
  list.Repeated("--expect", "y=VALUE", request.expects,
                "Compare an output or param; exit 1 if it differs");
  list.Number("--rtol", options.rtol, "Relative tolerance of --expect [1e-4]");
  list.Number("--atol", options.atol, "Absolute tolerance of --expect [1e-5]");
  list.Repeated("--labels", "y=VALUE", request.labels, "Accuracy of an output [rows, classes]");
  list.Text("--held-out", "E:R", request.held_out, "Also of rows with index % E = R alone");
  AddPlanningOptions(list, options.planning);
  AddWorkerOptions(list, options.workers);
  list.Text("--offload", "FOLDER", options.offload, "Where buffers lie that a plan puts in files");
  list.Count("--iterations", options.iterations, int64_t{1}, kMaxSteps, "Steps to time [1]");
  list.Count("--warmup", options.warmup, int64_t{0}, kMaxSteps, "Steps before them [0]");
  list.Flag("--profile", options.profile, "Time by node");
  list.Text("--trace", "FILE", options.trace, "Write a Chrome trace here");
  list.Flag("--json", options.json, "Print the report as JSON");
  list.Footer(
      "VALUE is one of\n"
      "  @x.npy               a NumPy file\n"
      "  @x.csv.gz:0-63       columns, from 0, of a comma-separated file, plain or gzip\n"
      "  rand:SEED            floats from 0 to 1, integers 0 or 1\n"
      "  '2x2xf32=1 2 3 4'    elements in row-major order");
}

}  // namespace

void AddRunCommand(CommandLine& line) {
  AddCommand<RunOptions>(line, "run", "Run a graph or a plan", Run, DeclareOptions);
}

}  // namespace millrace
