// The whole compiler, in the order in which things happen.
#include "passes/pipeline.h"

#include <algorithm>
#include <utility>

#include "graph/strings.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "passes/budget/fit_graph.h"
#include "passes/emit_plan.h"
#include "passes/parallel/bucket_reductions.h"
#include "passes/parallel/lower_shardings.h"
#include "passes/parallel/propagate_shardings.h"
#include "passes/pass_list.h"
#include "passes/schedule/choose_streams.h"

namespace millrace {
namespace {

constexpr int kMaxRounds = 64;  // of rewrites: nests that deep are left for another run

// What nodes ask for is honoured or refused. This pipeline plans for one device, or for a mesh of
// devices that all do the same.
absl::Status CheckRequests(const Graph& graph, const CompileOptions& options) {
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

// The devices of the mesh are the `first` one and those that follow it, in linear order.
LinearExpr DeviceIndex(const Mesh& mesh, int64_t first) {
  LinearExpr index = first;
  int64_t scale = mesh.num_devices();
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    scale /= mesh.axes[axis].size;
    if (mesh.axes[axis].size > 1) {
      index.terms.push_back({.variable = static_cast<int>(axis), .scale = scale});
    }
  }
  return index;
}

absl::Status CheckMeshFits(const Mesh& mesh, const MachineSpec& machine, std::string_view kind,
                           int64_t first) {
  const int64_t wanted = mesh.num_devices(), there = CountDevices(machine, kind);
  if (wanted <= there - first) return absl::OkStatus();
  return UsageError(StrCat("the mesh ", ToString(mesh), " takes ", wanted, " devices from ", kind,
                           ":", first, " on, but the machine has ", there, " ", kind,
                           there == 1 ? " device" : " devices",
                           kind == "cpu" ? "; --cpu-devices splits it into more" : ""));
}

// The graph of one device of its mesh. Without a mesh nothing has to be done.
absl::Status SpreadOverMesh(Graph& graph, const MachineSpec& machine, const CompileOptions& options,
                            std::vector<RewriteRecord>& records) {
  if (graph.mesh.axes.empty()) {
    if (options.zero == 0) return absl::OkStatus();
    return UsageError("ZeRO cuts the optimizer's state over devices; give it a mesh");
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(options.device));
  const auto& [kind, first] = device;
  MILLRACE_RETURN_IF_ERROR(CheckMeshFits(graph.mesh, machine, kind, first));
  if (graph.local_types) return absl::OkStatus();
  const ReshardLinks links = {.machine = &machine, .kind = kind, .first = first};
  MILLRACE_ASSIGN_OR_RETURN(
      const ShardingChoice choice,
      PropagateShardings(graph, {.links = links, .zero = options.zero}, records));
  MILLRACE_ASSIGN_OR_RETURN(graph, LowerShardings(graph, choice, links));
  MILLRACE_RETURN_IF_ERROR(BucketReductions(graph, kReductionBucketBytes, records));
  return VerifyGraphAfter(graph, "shard");
}

// Of the records from `begin` on.
void ForgetRefusals(size_t begin, std::vector<RewriteRecord>& records) {
  const auto refused = std::remove_if(records.begin() + static_cast<int64_t>(begin), records.end(),
                                      [](const RewriteRecord& r) { return !r.applied; });
  records.erase(refused, records.end());
}

// What does not fit as it is may in another order, with nodes run again, on one stream.
absl::Status FitIntoMemory(Graph& graph, const Target& target, const DeviceSpec& device,
                           const CompileOptions& options, const EmitOptions& emit, Program& program,
                           std::vector<RewriteRecord>& records) {
  if (BudgetedBytes(program) <= device.memory_bytes) return absl::OkStatus();
  FitGraphOptions fit{.budget_bytes = device.memory_bytes, .device = &device, .emit = emit};
  if (options.costs != nullptr) fit.known.costs = options.costs->FindDevice(device.name);
  fit.emit.stream_of_node.clear();
  if (program.streams.size() > 1) {
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
  MILLRACE_RETURN_IF_ERROR(SpreadOverMesh(graph, machine, options, context.records));
  const size_t spreading = context.records.size();
  for (PassStage stage : kPassStages) {
    std::vector<Pass> fresh, due;
    for (const Pass& pass : passes) {
      if (pass.stage == stage) fresh.push_back(pass);
      if (pass.stage <= stage) due.push_back(pass);
    }
    // One pass makes work for another. What is refused is said once, when all is done.
    bool changed = !fresh.empty();
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      if (round > 0) ForgetRefusals(spreading, context.records);
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
  emit.device_index = DeviceIndex(graph.mesh, index);
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
  result.plan.mesh = graph.mesh;
  result.plan.graph = std::move(graph);
  result.plan.programs.push_back(std::move(program));
  return result;
}

}  // namespace millrace
