// Kernels come from the cost model, copies from the machine's memories and links. A Call is one
// long instruction: its bodies' instructions one after another, each with the overhead of starting
// it. Which branch an If takes is not known; the costlier one is taken. A loop makes as many trips
// as PlannedTrips says; one where nothing is known of them.
#include "passes/price_plan.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/control_flow.h"
#include "graph/link_cost.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/cost_model.h"

namespace millrace {
namespace {

constexpr int kMaxCallDepth = 64;
constexpr int64_t kMaxEndpoints = int64_t{1} << 20;  // copies of programs

// One task after another, as one.
void Append(const TaskCost& next, TaskCost* all) {
  const double total_us = all->time_us + next.time_us;
  if (total_us <= 0) return;
  for (int r = 0; r < kNumResources; ++r) {
    all->use[r] =
        static_cast<float>((all->use[r] * all->time_us + next.use[r] * next.time_us) / total_us);
  }
  if (next.time_us > all->time_us) all->limit = next.limit;
  all->time_us = total_us;
}

// One program on one kind of device.
class ProgramPricer {
 public:
  ProgramPricer(const std::vector<const Graph*>& graphs, const Program& program,
                const MachineSpec& machine, const DeviceLocation& device,
                const PriceOptions& options, std::array<int64_t, 3>* kernels_by_source)
      : graphs_(graphs),
        program_(program),
        machine_(machine),
        device_(device),
        options_(options),
        kernels_by_source_(*kernels_by_source) {}

  absl::StatusOr<ProgramCosts> Price() {
    costs_.resize(program_.segments.size());
    priced_.resize(program_.segments.size());
    for (size_t s = 0; s < program_.segments.size(); ++s) {
      MILLRACE_RETURN_IF_ERROR(PriceSegment(SegmentId(s)));
    }
    return std::move(costs_);
  }

 private:
  absl::Status PriceSegment(SegmentId id) {
    if (priced_[id.index]) return absl::OkStatus();
    if (++depth_ > kMaxCallDepth) {
      return UsageError(
          StrCat("program '", program_.name, "': calls are nested deeper than ", kMaxCallDepth));
    }
    std::vector<TaskCost> costs;
    for (const Instruction& instruction : program_.segments[id.index].instructions) {
      MILLRACE_ASSIGN_OR_RETURN(
          TaskCost cost, std::visit([&](const auto& body) { return CostOf(instruction, body); },
                                    instruction.body));
      costs.push_back(std::move(cost));
    }
    --depth_;
    costs_[id.index] = std::move(costs);
    priced_[id.index] = true;
    return absl::OkStatus();
  }

  using Cost = absl::StatusOr<TaskCost>;

  // Those that only wait or meet cost nothing by themselves.
  template <typename Body>
  Cost CostOf(const Instruction&, const Body&) {
    return TaskCost();
  }

  Cost CostOf(const Instruction& instruction, const Launch& launch) {
    return Kernel(launch.graph, launch.node, launch.variant,
                  program_.streams[instruction.stream.index].threads, *device_.spec);
  }

  // On a cpu of the device's node; without one all that is known is the host's memory.
  Cost CostOf(const Instruction&, const HostCall& call) {
    const DeviceSpec* host = HostSpec();
    if (host != nullptr) return Kernel(call.graph, call.node, "reference", 1, *host);
    ++kernels_by_source_[static_cast<int>(CostSource::kRoofline)];
    const double bytes = WorkOf(QueryFor(*graphs_[call.graph], call.node)).bytes;
    return CopyCost(machine_, device_, MemorySpace::kHost, MemorySpace::kHost, bytes / 2);
  }

  TaskCost Kernel(int32_t graph, NodeId node, std::string_view variant, int threads,
                  const DeviceSpec& spec) {
    const NodeQuery query = QueryFor(*graphs_[graph], node);
    KnownCosts known;
    if (options_.costs != nullptr) known.costs = options_.costs->FindDevice(spec.name);
    if (options_.measured_machine != nullptr) {
      known.measured_on = &options_.measured_machine->devices[&spec - machine_.devices.data()];
    }
    const KernelCost cost = CostOfKernel(query, variant, threads, spec, known);
    ++kernels_by_source_[static_cast<int>(cost.source)];
    return cost.task;
  }

  const DeviceSpec* HostSpec() const {
    if (device_.spec->kind == "cpu") return device_.spec;
    for (const auto& [name, count] : NodeAt(machine_, device_.node).devices) {
      for (const DeviceSpec& spec : machine_.devices) {
        if (spec.name == name && spec.kind == "cpu") return &spec;
      }
    }
    return nullptr;
  }

  MemorySpace SpaceOf(SliceId slice) const {
    return program_.buffers[program_.slices[slice.index].buffer.index].space;
  }

  Cost CostOf(const Instruction&, const Copy& copy) {
    const MemorySpace from = SpaceOf(copy.from), to = SpaceOf(copy.to);
    if ((from == MemorySpace::kFile || to == MemorySpace::kFile) && machine_.file_bandwidth <= 0) {
      return UsageError(StrCat("program '", program_.name,
                               "' copies from or to a file, but machine '", machine_.name,
                               "' gives no file_bandwidth"));
    }
    return CopyCost(machine_, device_, from, to, BytesOf(copy.from));
  }

  // The mailbox lies in the memory of who publishes.
  Cost CostOf(const Instruction&, const Publish& publish) { return Mail(publish.from); }
  Cost CostOf(const Instruction&, const TakeLatest& take) { return Mail(take.to); }
  TaskCost Mail(SliceId slice) const {
    const double bytes = static_cast<double>(program_.slices[slice.index].size_bytes);
    return CopyCost(machine_, device_, MemorySpace::kDevice, MemorySpace::kDevice, bytes);
  }

  Cost CostOf(const Instruction&, const Call& call) {
    const Graph& graph = *graphs_[call.graph];
    const Node& node = graph.node(call.node);
    TaskCost costliest;
    for (const CallBody& body : call.bodies) {
      MILLRACE_RETURN_IF_ERROR(PriceSegment(body.segment));
      TaskCost all;
      for (const TaskCost& cost : costs_[body.segment.index]) {
        Append({.time_us = device_.spec->launch_overhead_us}, &all);
        Append(cost, &all);
      }
      if (all.time_us > costliest.time_us) costliest = all;
    }
    if (call.flow == ControlFlow::kIf) return costliest;
    MILLRACE_ASSIGN_OR_RETURN(const CallForm form, FormOf(call.flow, node));
    const int64_t trips = PlannedTrips(form, graph, node);
    if (trips >= 0) costliest.time_us *= static_cast<double>(trips);
    AppendElements(call, form, &costliest);
    return costliest;
  }

  // Over all trips, each sequence and stack is copied once.
  void AppendElements(const Call& call, const CallForm& form, TaskCost* all) const {
    const auto append = [&](const std::vector<BodyPort>& ports,
                            const std::vector<SliceId>& operands) {
      for (const BodyPort& port : ports) {
        if (port.kind != PortKind::kElement || !operands[port.operand].valid()) continue;
        const double bytes = BytesOf(operands[port.operand]);
        Append(CopyCost(machine_, device_, MemorySpace::kDevice, MemorySpace::kDevice, bytes), all);
      }
    };
    append(form.inputs, call.inputs);
    append(form.outputs, call.outputs);
  }

  double BytesOf(SliceId slice) const {
    const ValueRef value = program_.slices[slice.index].value;
    return static_cast<double>(ByteSize(graphs_[value.graph]->value(value.value).type));
  }

  const std::vector<const Graph*>& graphs_;
  const Program& program_;
  const MachineSpec& machine_;
  const DeviceLocation& device_;
  const PriceOptions& options_;
  std::array<int64_t, 3>& kernels_by_source_;
  ProgramCosts costs_;
  std::vector<bool> priced_;
  int depth_ = 0;
};

// One device of each place where copies of the program run, in the order of mesh coordinates.
absl::StatusOr<std::vector<DeviceLocation>> PlacesOf(const PlanBundle& plan, const Program& program,
                                                     const MachineSpec& machine) {
  std::vector<DeviceLocation> found;
  std::set<DevicePlace> seen;
  std::set<int64_t> indices;
  for (int64_t i = 0; i < plan.mesh.num_devices(); ++i) {
    const std::vector<int64_t> coordinates = CoordinatesOf(plan.mesh, i);
    const int64_t index = Evaluate(program.device_index, {.coordinates = coordinates});
    if (indices.insert(index).second) {
      const absl::StatusOr<DeviceLocation> device = FindDevice(machine, program.device_kind, index);
      if (!device.ok()) return UsageError(StdView(device.status().message()));
      if (seen.insert(PlaceOf(machine, *device)).second) found.push_back(*device);
    }
  }
  return found;
}

}  // namespace

absl::StatusOr<PlanPrices> PricePlan(const PlanBundle& plan, const MachineSpec& machine,
                                     const PriceOptions& options) {
  const int64_t programs = std::ssize(plan.programs), devices = plan.mesh.num_devices();
  if (programs > kMaxEndpoints || devices > kMaxEndpoints || programs * devices > kMaxEndpoints) {
    return UsageError(StrCat(programs, " programs on the mesh ", ToString(plan.mesh),
                             " are too many to price; at most ", kMaxEndpoints, " copies are"));
  }
  PlanPrices prices;
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  for (const Program& program : plan.programs) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<DeviceLocation> places,
                              PlacesOf(plan, program, machine));
    auto& by_place = prices.costs.programs.emplace_back();
    for (const DeviceLocation& device : places) {
      ProgramPricer pricer(graphs, program, machine, device, options, &prices.kernels_by_source);
      MILLRACE_ASSIGN_OR_RETURN(by_place[PlaceOf(machine, device)], pricer.Price());
    }
  }
  return prices;
}

}  // namespace millrace
