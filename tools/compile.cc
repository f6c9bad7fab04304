#include "tools/compile.h"

#include <algorithm>

#include "graph/plan_json.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "passes/parallel/auto_hints.h"
#include "passes/parallel/auto_mesh.h"
#include "passes/parallel/sharding_hints.h"
#include "tools/auto_page.h"
#include "tools/binding.h"
#include "tools/model_file.h"
#include "tools/plan_devices.h"
#include "tools/prediction.h"
#include "tools/quantity.h"

namespace millrace {
namespace {

constexpr int kMaxCpuDevices = 1024;

// Devices of this machine that hold the plan's "cpu:N" with the greatest N.
absl::StatusOr<int> CpuDevicesFor(const PlanBundle& plan) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, AllDeviceNames(plan));
  int64_t devices = 1;
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(name));
    if (device.first == "cpu") devices = std::max(devices, device.second + 1);
  }
  if (devices > kMaxCpuDevices) {
    return UsageError(StrCat("the plan is for ", devices, " cpu devices; this machine can be split",
                             " into at most ", kMaxCpuDevices));
  }
  return static_cast<int>(devices);
}

absl::StatusOr<int64_t> ParseMemoryBudget(const PlanningOptions& options) {
  const absl::StatusOr<double> bytes = ParseQuantity(options.memory_budget, "B");
  if (!bytes.ok()) return Annotate(bytes.status(), "--memory-budget");
  return static_cast<int64_t>(std::min(*bytes, static_cast<double>(kMaxBytes)));
}

absl::Status LimitMemory(const PlanningOptions& options, MachineSpec& machine) {
  if (options.memory_budget.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t budget, ParseMemoryBudget(options));
  for (DeviceSpec& device : machine.devices) {
    device.memory_bytes = std::min(device.memory_bytes, budget);
  }
  return absl::OkStatus();
}

// What is planned already can only be compared to the budget.
absl::Status CheckWithinBudget(const PlanningOptions& options, const PlanBundle& plan,
                               const MachineSpec& machine) {
  if (options.memory_budget.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int64_t budget, ParseMemoryBudget(options));
  MILLRACE_ASSIGN_OR_RETURN(const MemoryFit fit, FitOf(plan, machine));
  if (fit.needed_bytes <= budget) return absl::OkStatus();
  return InfeasibleError(StrCat("--memory-budget: '", options.file, "' is a plan that needs ",
                                fit.needed_bytes, " bytes on ", fit.device, ", more than ", budget,
                                "; plan the graph with this budget instead"));
}

}  // namespace

void AddPlanningOptions(OptionList& list, PlanningOptions& options) {
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of the graph");
  list.Text("--device", "DEVICE", options.device, "Where nodes run [cpu:0]");
  list.Count("--threads", options.threads, 1, 1024, "Threads of the device [all it has]");
  list.Count("--streams", options.streams, 1, 64,
             "At most so many compute streams, where they pay [1]");
  list.Text("--memory-budget", "SIZE", options.memory_budget,
            "Memory a device may use, such as 2GiB; what is lacking is computed again "
            "[what it has]");
  list.Text("--schedule", "GOAL", options.schedule,
            "Order nodes for: time, or memory (least live at once) [time]");
  list.Text("--machine", "FILE", options.machine, "Machine to plan for [this one]");
  list.Text("--costs", "FILE", options.costs,
            "Measured costs of kernels [beside the machine: machine.costs.json]");
  list.Count("--cpu-devices", options.cpu_devices, 1, kMaxCpuDevices,
             "Split this machine into so many cpu devices [as the mesh takes]");
  list.Text(
      "--mesh", "data=2,tensor=2", options.mesh,
      "Spread the graph over devices, along named axes; inputs are cut along dim 0 over data. "
      "millrace plan also takes auto, or auto,tensor=4, and searches");
  list.Repeated("--shard", "'w*=tensor:1'", options.shards,
                "Cut inputs and params of these names along a dim over an axis of the mesh");
  list.Count("--zero", options.zero, 1, 2,
             "Cut the optimizer's state over the axis data (1), and sums of gradients too (2)");
  list.AtMostOne({"--machine", "--cpu-devices"});
  AddRewriteOptions(list, options.rewrites);
}

absl::StatusOr<MachineSpec> LoadPlannedMachine(const PlanningOptions& options,
                                               int64_t mesh_devices) {
  const auto in_mesh = static_cast<int>(std::min<int64_t>(mesh_devices, kMaxCpuDevices));
  const int cpu_devices = options.cpu_devices > 0 ? options.cpu_devices : in_mesh;
  MILLRACE_ASSIGN_OR_RETURN(MachineSpec machine, LoadMachineOrDetect(options.machine, cpu_devices));
  MILLRACE_RETURN_IF_ERROR(LimitMemory(options, machine));
  return machine;
}

absl::StatusOr<int64_t> DevicesOfMesh(const PlanningOptions& options) {
  if (IsAutoMesh(options.mesh)) return 1;  // it is found for the devices there are
  const absl::StatusOr<Mesh> mesh = ParseMesh(options.mesh);
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh");
  return mesh->num_devices();
}

int64_t NumNodes(const Graph& graph) {
  int64_t nodes = 0;
  for (const Graph* each : FlattenGraphs(graph)) nodes += std::ssize(each->nodes);
  return nodes;
}

namespace {

absl::StatusOr<CompileOptions> ToCompileOptions(const PlanningOptions& options,
                                                const Graph& graph) {
  CompileOptions compile;
  if (!options.device.empty()) compile.device = options.device;
  compile.threads = options.threads;
  compile.streams = std::max(1, options.streams);
  compile.zero = options.zero;
  if (!options.schedule.empty()) {
    const absl::StatusOr<ScheduleGoal> goal = ParseScheduleGoal(options.schedule);
    if (!goal.ok()) return Annotate(goal.status(), "--schedule");
    compile.schedule = *goal;
  }
  MILLRACE_RETURN_IF_ERROR(ApplyRewriteOptions(options.rewrites, graph, compile));
  return compile;
}

absl::StatusOr<PlanForMachine> CompileGraph(Graph graph, const PlanningOptions& options,
                                            MachineSpec machine, const Target& target) {
  PlanForMachine result;
  result.machine = std::move(machine);
  MILLRACE_ASSIGN_OR_RETURN(CompileOptions compile, ToCompileOptions(options, graph));
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<CostTable> costs, LoadCosts(options));
  if (costs.has_value()) compile.costs = &*costs;
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled,
                            Compile(std::move(graph), result.machine, target, compile));
  result.plan = std::move(compiled.plan);
  result.records = std::move(compiled.records);
  MILLRACE_RETURN_IF_ERROR(CheckPrecision(options.rewrites, result.records));
  return result;
}

struct Destination {
  MachineSpec machine;
  std::unique_ptr<Target> target;
};
absl::StatusOr<Destination> FindDestination(const PlanningOptions& options, const Mesh& mesh) {
  Destination result;
  const std::string device = options.device.empty() ? CompileOptions().device : options.device;
  MILLRACE_ASSIGN_OR_RETURN(const auto kind_and_index, ParseDeviceName(device));
  MILLRACE_ASSIGN_OR_RETURN(result.machine, LoadPlannedMachine(options, mesh.num_devices()));
  MILLRACE_ASSIGN_OR_RETURN(result.target, MakeTarget(kind_and_index.first, options.threads));
  return result;
}

// Searches for a mesh of one stage: plans that are carried out here have no pipelines.
absl::Status ApplyAutoMesh(const PlanningOptions& options, Graph& graph) {
  if (options.machine.empty() && options.cpu_devices == 0) {
    return UsageError("--mesh auto: over how many devices? Say so with --cpu-devices");
  }
  MeshRequest request = {.pipeline = 1, .one_microbatch = true};
  MILLRACE_RETURN_IF_ERROR(ParseAutoMesh(options.mesh, request));
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadPlannedMachine(options));
  MILLRACE_ASSIGN_OR_RETURN(const MeshSearch search,
                            SearchMeshes(graph, machine, {.training = false}, request));
  ApplySearch(search, graph);
  return absl::OkStatus();
}

// The mesh and the shardings that were asked for.
absl::Status ApplyMeshOptions(const PlanningOptions& options, Graph& graph) {
  if (IsAutoMesh(options.mesh)) {
    MILLRACE_RETURN_IF_ERROR(ApplyAutoMesh(options, graph));
  } else if (!options.mesh.empty()) {
    MILLRACE_RETURN_IF_ERROR(Annotate(SetMesh(graph, options.mesh), "--mesh"));
  }
  if (graph.local_types && (!options.shards.empty() || options.zero != 0)) {
    return UsageError(StrCat(options.zero != 0 ? "--zero" : "--shard",
                             ": the graph is that of one device of its mesh already; spread the "
                             "graph that it was made from"));
  }
  if (!options.shards.empty() && graph.mesh.axes.empty()) {
    return UsageError("--shard: there is no mesh to spread anything over; give it one with --mesh");
  }
  for (const std::string& hint : options.shards) {
    MILLRACE_RETURN_IF_ERROR(Annotate(AddShardingHint(graph, hint), "--shard"));
  }
  return absl::OkStatus();
}

// That the weights are there, before any work is done.
absl::Status CheckWeights(const Graph& graph, std::string_view pointer) {
  Diagnostics diagnostics;
  VerifyWeights(graph, diagnostics, pointer);
  return diagnostics.ToStatus();
}

absl::StatusOr<Graph> LoadPlannedGraph(const PlanningOptions& options, const ModelFile& file) {
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadInferredGraph(file, options.sets));
  if (options.needs_weights) MILLRACE_RETURN_IF_ERROR(CheckWeights(graph, ""));
  return graph;
}

}  // namespace

absl::StatusOr<PlanForMachine> CompileGraph(Graph graph, const PlanningOptions& options) {
  MILLRACE_RETURN_IF_ERROR(ApplyMeshOptions(options, graph));
  MILLRACE_ASSIGN_OR_RETURN(Destination destination, FindDestination(options, graph.mesh));
  return CompileGraph(std::move(graph), options, std::move(destination.machine),
                      *destination.target);
}

absl::StatusOr<PlanForMachine> CompileFile(const PlanningOptions& options, const ModelFile& file,
                                           MachineSpec machine, const Target& target) {
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadPlannedGraph(options, file));
  MILLRACE_RETURN_IF_ERROR(ApplyMeshOptions(options, graph));
  return CompileGraph(std::move(graph), options, std::move(machine), target);
}

absl::StatusOr<PlanForMachine> CompileFile(const PlanningOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(options.file));
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadPlannedGraph(options, file));
  return CompileGraph(std::move(graph), options);
}

absl::StatusOr<RewrittenGraph> RewriteFile(const PlanningOptions& options) {
  const char* refused = !options.schedule.empty() ? "--schedule"
                        : options.streams != 0    ? "--streams"
                                                  : nullptr;
  if (refused != nullptr) {
    return UsageError(
        StrCat(refused, ": that is settled when the graph is planned; see millrace plan"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(options.file));
  RewrittenGraph result;
  MILLRACE_ASSIGN_OR_RETURN(result.graph, LoadPlannedGraph(options, file));
  result.nodes_before = NumNodes(result.graph);
  if (!options.memory_budget.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(PlanForMachine planned,
                              CompileGraph(std::move(result.graph), options));
    result.graph = std::move(planned.plan.graph);
    result.records = std::move(planned.records);
    return result;
  }
  MILLRACE_RETURN_IF_ERROR(ApplyMeshOptions(options, result.graph));
  MILLRACE_ASSIGN_OR_RETURN(const Destination destination,
                            FindDestination(options, result.graph.mesh));
  MILLRACE_ASSIGN_OR_RETURN(const CompileOptions compile, ToCompileOptions(options, result.graph));
  MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(compile.device));
  const auto found = FindDevice(destination.machine, device.first, device.second);
  if (!found.ok()) return UsageError(StdView(found.status().message()));
  MILLRACE_ASSIGN_OR_RETURN(result.records, RewriteGraph(result.graph, destination.machine,
                                                         *destination.target, compile));
  return result;
}

absl::StatusOr<PlanForMachine> LoadOrCompile(const PlanningOptions& options,
                                             const ModelFile& file) {
  if (file.kind != ModelFileKind::kPlan) {
    MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadPlannedGraph(options, file));
    return CompileGraph(std::move(graph), options);
  }
  const char* refused = !options.sets.empty()       ? "--set"
                        : !options.device.empty()   ? "--device"
                        : options.threads != 0      ? "--threads"
                        : !options.schedule.empty() ? "--schedule"
                        : options.streams != 0      ? "--streams"
                        : options.cpu_devices != 0  ? "--cpu-devices"
                        : !options.mesh.empty()     ? "--mesh"
                        : !options.shards.empty()   ? "--shard"
                        : options.zero != 0         ? "--zero"
                                                    : options.rewrites.Given();
  if (refused != nullptr) {
    return UsageError(StrCat(refused, ": '", options.file,
                             "' is a plan, where this is settled; give it the graph instead"));
  }
  PlanForMachine result;
  MILLRACE_ASSIGN_OR_RETURN(result.plan, ParsePlanJson(*file.document));
  if (options.needs_weights) {
    MILLRACE_RETURN_IF_ERROR(CheckWeights(result.plan.graph, "/graph"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const int cpu_devices, CpuDevicesFor(result.plan));
  MILLRACE_ASSIGN_OR_RETURN(result.machine, LoadMachineOrDetect(options.machine, cpu_devices));
  MILLRACE_RETURN_IF_ERROR(CheckWithinBudget(options, result.plan, result.machine));
  MILLRACE_RETURN_IF_ERROR(LimitMemory(options, result.machine));
  return result;
}

}  // namespace millrace
