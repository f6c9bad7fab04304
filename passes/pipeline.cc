// The whole compiler, in the order in which things happen.
#include "passes/pipeline.h"

#include "graph/strings.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "passes/budget/fit_graph.h"
#include "passes/emit_plan.h"
#include "passes/pass_list.h"
#include "passes/schedule/choose_streams.h"

namespace millrace {
namespace {

constexpr int kMaxRounds = 64;  // of rewrites: nests that deep are left for another run

// What nodes ask for is honoured or refused. This pipeline plans for one device.
absl::Status CheckRequests(const Graph& graph, const CompileOptions& options) {
  if (!graph.mesh.axes.empty()) {
    return UsageError(StrCat("the graph asks for the mesh ", ToString(graph.mesh),
                             ", but plans are made for one device so far"));
  }
  for (const Node& node : graph.nodes) {
    for (const Subgraph& body : node.subgraphs) {
      MILLRACE_RETURN_IF_ERROR(CheckRequests(body.graph, options));
    }
    if (!node.device.empty() && node.device != options.device) {
      return UsageError(StrCat("node '", node.name, "' asks for device ", node.device,
                               ", but the plan is made for ", options.device,
                               " alone; pass --device ", node.device, " or take the request out"));
    }
    if (node.stream > 0 || (node.stream == 0 && options.streams > 1)) {
      return UsageError(StrCat("node '", node.name, "' asks for stream ", node.stream,
                               "; nodes cannot choose their streams so far, --streams does"));
    }
  }
  return absl::OkStatus();
}

// What came of it is recorded as rewrites are.
absl::StatusOr<RewriteRecord> ScheduleForMemory(Graph& graph) {
  MILLRACE_ASSIGN_OR_RETURN(const ScheduledPeaks peaks, OrderGraphForMemory(graph));
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(graph, "schedule"));
  const bool is_best = peaks.after_bytes == peaks.lower_bound_bytes;
  const std::string bound =
      is_best ? "the least there is" : StrCat("no order has less than ", peaks.lower_bound_bytes);
  RewriteRecord record = {"schedule", "memory", {}, "", peaks.after_bytes < peaks.before_bytes};
  record.result = record.applied
                      ? StrCat("live bytes at the peak: ", peaks.before_bytes, " -> ",
                               peaks.after_bytes, "; ", bound)
                      : StrCat("no order was found with a lower peak than the given one's ",
                               peaks.before_bytes, " live bytes; ", bound);
  return record;
}

// What came of it is recorded likewise.
absl::StatusOr<RewriteRecord> ChooseAndSpread(Graph& graph, const Target& target,
                                              const DeviceSpec& device,
                                              const CompileOptions& options, EmitOptions& emit) {
  if (options.schedule == ScheduleGoal::kMemory) {
    return UsageError("an order for memory is one for one stream; ask for one or the other");
  }
  ChooseStreamsOptions choose{.max_streams = options.streams, .threads = emit.threads};
  if (options.costs != nullptr) choose.known.costs = options.costs->FindDevice(device.name);
  MILLRACE_ASSIGN_OR_RETURN(SpreadGraph spread, SpreadOverStreams(graph, target, device, choose));
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(graph, "streams"));
  emit.threads = spread.threads;
  emit.stream_of_node = std::move(spread.stream_of_node);
  RewriteRecord record = {"streams", "spread", {}, "", spread.num_streams > 1};
  record.result = record.applied
                      ? StrCat("a step on ", spread.num_streams, " streams: ", spread.one_stream_us,
                               " -> ", spread.streams_us, " us")
                      : StrCat("one stream takes ", spread.one_stream_us,
                               " us a step by the cost model, and more gain nothing");
  return record;
}

// What does not fit as it is may in another order, with nodes run again, on one stream.
absl::Status FitIntoMemory(Graph& graph, const Target& target, const DeviceSpec& device,
                           const CompileOptions& options, const EmitOptions& emit,
                           Program& program, std::vector<RewriteRecord>& records) {
  if (BudgetedBytes(program) <= device.memory_bytes) return absl::OkStatus();
  FitGraphOptions fit{.budget_bytes = device.memory_bytes, .device = &device, .emit = emit};
  if (options.costs != nullptr) fit.known.costs = options.costs->FindDevice(device.name);
  if (program.streams.size() > 1) {
    fit.emit.stream_of_node.clear();
    fit.emit.threads = options.threads > 0 ? options.threads : device.threads;
    records.push_back({"streams", "spread", {}, "the memory there is leaves room for one", false});
  }
  MILLRACE_ASSIGN_OR_RETURN(FittedGraph fitted, FitGraph(graph, target, fit));
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(fitted.graph, "budget"));
  graph = std::move(fitted.graph);
  program = std::move(fitted.program);
  for (RewriteRecord& record : fitted.records) records.push_back(std::move(record));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RewriteRecord>> RewriteGraph(Graph& graph, const MachineSpec& machine,
                                                        const Target& target,
                                                        const CompileOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Pass> passes, SelectPasses(options.passes));
  PassContext context;
  context.machine = &machine;
  context.target = &target;
  for (PassStage stage : kPassStages) {
    std::vector<Pass> fresh, due;
    for (const Pass& pass : passes) {
      if (pass.stage == stage) fresh.push_back(pass);
      if (pass.stage <= stage) due.push_back(pass);
    }
    // One pass makes work for another. What is refused is said once, when all is done.
    bool changed = !fresh.empty();
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      if (round > 0) std::erase_if(context.records, [](const auto& r) { return !r.applied; });
      MILLRACE_ASSIGN_OR_RETURN(
          changed, RunPasses(round == 0 ? fresh : due, graph, context, options.running));
    }
  }
  return std::move(context.records);
}

absl::StatusOr<CompileResult> Compile(Graph graph, const MachineSpec& machine, const Target& target,
                                      const CompileOptions& options) {
  CompileResult result;

  // Where.
  MILLRACE_ASSIGN_OR_RETURN(const auto device_name, ParseDeviceName(options.device));
  const auto& [kind, index] = device_name;
  const absl::StatusOr<DeviceLocation> found = FindDevice(machine, kind, index);
  if (!found.ok()) return UsageError(StdView(found.status().message()));
  const DeviceLocation& device = *found;
  if (kind != target.device_kind()) {
    return UsageError(StrCat("device ", options.device, " needs a target for ", kind, ", not for ",
                             target.device_kind()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckRequests(graph, options));

  MILLRACE_ASSIGN_OR_RETURN(result.records, RewriteGraph(graph, machine, target, options));

  // Order.
  if (options.schedule == ScheduleGoal::kMemory) {
    MILLRACE_ASSIGN_OR_RETURN(RewriteRecord record, ScheduleForMemory(graph));
    result.records.push_back(std::move(record));
  }

  // Streams, memory, instructions.
  EmitOptions emit;
  emit.device_kind = kind;
  emit.device_index = index;
  emit.threads = options.threads > 0 ? options.threads : device.spec->threads;
  if (options.streams > 1) {
    MILLRACE_ASSIGN_OR_RETURN(RewriteRecord record,
                              ChooseAndSpread(graph, target, *device.spec, options, emit));
    result.records.push_back(std::move(record));
  }
  MILLRACE_ASSIGN_OR_RETURN(Program program, EmitProgram(graph, target, emit));
  MILLRACE_RETURN_IF_ERROR(
      FitIntoMemory(graph, target, *device.spec, options, emit, program, result.records));

  result.plan.name = graph.name;
  result.plan.machine = machine.name;
  result.plan.graph = std::move(graph);
  result.plan.programs.push_back(std::move(program));
  return result;
}

}  // namespace millrace
