#include "runtime/sim/sim_tasks.h"

#include <map>
#include <tuple>

#include "graph/link_cost.h"
#include "graph/strings.h"
#include "runtime/collective_spec.h"

namespace millrace {
namespace {

constexpr int64_t kMaxInstances = int64_t{1} << 24;

class TaskMaker {
 public:
  TaskMaker(const PlanBundle& plan, const MachineSpec& machine, const PlanCosts& costs,
            const Alike& alike, Section section)
      : plan_(plan),
        machine_(machine),
        costs_(costs),
        alike_(alike),
        section_(section),
        graphs_(FlattenGraphs(plan.graph)) {}

  absl::StatusOr<SimTasks> Make() {
    MILLRACE_RETURN_IF_ERROR(CheckSize());
    made_.problem = FluidProblem(NodeResource(alike_, static_cast<int32_t>(alike_.nodes.size()),
                                              static_cast<Resource>(kNumDeviceResources)));
    for (int32_t kind = 0; kind < std::ssize(alike_.kinds); ++kind) {
      MILLRACE_RETURN_IF_ERROR(AddCopy(kind));
    }
    for (const auto& [key, transfer] : transfers_) {
      if (transfer.ends == 2) continue;
      return InternalError(StrCat("channel ", std::get<1>(key),
                                  ": a Send or Recv has no other end; the plan was not checked"));
    }
    return std::move(made_);
  }

 private:
  // The copy being added, and where it stands.
  struct Copy {
    int32_t kind = 0;
    const AlikeCopies* alike = nullptr;
    const Program* program = nullptr;
    const ProgramCosts* costs = nullptr;
    bool asynchronous = false;
    double overhead_us = 0;
    std::vector<int32_t> last_of_stream, last_record;  // tasks; -1: none yet
    int32_t last_issue = -1;
    std::map<int32_t, int64_t> meetings;                        // through each port
    std::map<std::pair<NodeId, int32_t>, int64_t> collectives;  // by node and stream
  };
  // The instruction being added.
  struct At {
    const Instruction* instruction = nullptr;
    int32_t microbatch = 0;
    int32_t use = -1;  // Alike::uses
    const TaskCost* cost = nullptr;
  };

  absl::Status CheckSize() const {
    int64_t instances = 0;
    for (const AlikeCopies& kind : alike_.kinds) {
      const int64_t count = CountInstructions(plan_.programs[kind.first.program], section_);
      if (count > kMaxInstances || (instances += count) > kMaxInstances) {
        return UsageError(
            StrCat("the plan runs more than ", kMaxInstances,
                   " instructions a step on copies that differ; too many to simulate"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddCopy(int32_t kind) {
    Copy copy;
    copy.kind = kind;
    copy.alike = &alike_.kinds[kind];
    copy.program = &plan_.programs[copy.alike->first.program];
    const auto& by_place = costs_.programs[copy.alike->first.program];
    const auto costs = by_place.find(PlaceOf(machine_, copy.alike->device));
    if (costs == by_place.end()) return InternalError("the costs are of another machine");
    copy.costs = &costs->second;
    copy.asynchronous = copy.program->device_kind != "cpu";
    copy.overhead_us = copy.alike->device.spec->launch_overhead_us;
    copy.last_of_stream.assign(copy.program->streams.size(), -1);
    copy.last_record.assign(copy.program->events.size(), -1);
    for (const ScheduleItem& item : copy.program->schedule(section_)) {
      const Segment& segment = copy.program->segments[item.segment.index];
      for (size_t i = 0; i < segment.instructions.size(); ++i) {
        const At at = {.instruction = &segment.instructions[i],
                       .microbatch = item.microbatch,
                       .use = alike_.uses[copy.alike->first.program][item.segment.index][i],
                       .cost = &(*copy.costs)[item.segment.index][i]};
        MILLRACE_RETURN_IF_ERROR(std::visit([&](const auto& body) { return Add(copy, at, body); },
                                            at.instruction->body));
      }
    }
    return absl::OkStatus();
  }

  // --- Tasks ---
  int32_t AddTask(double duration_us, std::optional<Resource> limit) {
    made_.tasks.push_back({.limit = limit});
    return made_.problem.AddTask(duration_us);
  }

  // What a copy does on its stream next is `task`.
  void Follow(Copy& copy, const At& at, int32_t task) {
    int32_t& last = copy.last_of_stream[at.instruction->stream.index];
    if (last >= 0) made_.problem.AddOrder(last, task);
    SimTask& of_task = made_.tasks[task];
    if (of_task.instance < 0) of_task.instance = static_cast<int32_t>(made_.instances.size());
    made_.instances.push_back({.instruction = at.instruction,
                               .microbatch = at.microbatch,
                               .kind = copy.kind,
                               .task = task,
                               .reached = last});
    last = task;
  }

  // The host has to issue it first.
  void Issue(Copy& copy, int32_t task) {
    if (!copy.asynchronous || copy.overhead_us <= 0) return;
    const int32_t issue = AddTask(copy.overhead_us, std::nullopt);
    made_.tasks[issue].instance = static_cast<int32_t>(made_.instances.size());  // the next one
    made_.tasks[issue].launching = true;
    if (copy.last_issue >= 0) made_.problem.AddOrder(copy.last_issue, issue);
    made_.problem.AddOrder(issue, task);
    copy.last_issue = issue;
  }

  // The overhead that is part of the task itself.
  static double OwnOverhead(const Copy& copy) { return copy.asynchronous ? 0 : copy.overhead_us; }

  // The copy's part in what a task uses. The copies alike on its device and node do the same.
  void Use(const Copy& copy, int32_t task, const TaskCost& cost) {
    const double duration_us = made_.problem.duration_us(task);
    if (duration_us <= 0) return;
    for (int r = 0; r < kNumResources; ++r) {
      const auto resource = static_cast<Resource>(r);
      const bool of_device = r < kNumDeviceResources;
      const double share =
          cost.use[r] * cost.time_us / duration_us *
          static_cast<double>(of_device ? copy.alike->per_device : copy.alike->per_node);
      made_.problem.AddUse(task,
                           of_device ? DeviceResource(copy.alike->device_kind, resource)
                                     : NodeResource(alike_, copy.alike->node_kind, resource),
                           share);
    }
  }

  // --- One overload a kind of instruction ---

  // Launch, Copy, HostCall, Publish, TakeLatest, Call.
  template <typename Body>
  absl::Status Add(Copy& copy, const At& at, const Body&) {
    const int32_t task = AddTask(OwnOverhead(copy) + at.cost->time_us, at.cost->limit);
    Use(copy, task, *at.cost);
    Issue(copy, task);
    Follow(copy, at, task);
    // The host must know the condition before it can go on.
    if (std::is_same_v<Body, Call> && copy.asynchronous) copy.last_issue = task;
    return absl::OkStatus();
  }

  absl::Status Add(Copy& copy, const At& at, const Record& record) {
    const int32_t task = AddTask(0, std::nullopt);
    Follow(copy, at, task);
    copy.last_record[record.event.index] = task;
    return absl::OkStatus();
  }

  absl::Status Add(Copy& copy, const At& at, const Wait& wait) {
    const int32_t record = copy.last_record[wait.event.index];
    if (record < 0) return InternalError("a Wait before any Record; the plan was not checked");
    const int32_t task = AddTask(0, std::nullopt);
    made_.problem.AddOrder(record, task);
    Follow(copy, at, task);
    return absl::OkStatus();
  }

  absl::Status Add(Copy& copy, const At& at, const Send& send) {
    return AddTransfer(copy, at, send.from, /*outward=*/true);
  }
  absl::Status Add(Copy& copy, const At& at, const Recv& recv) {
    return AddTransfer(copy, at, recv.to, /*outward=*/false);
  }

  // Known by its receiver: the n-th through one of its ports.
  using TransferKey = std::tuple<int32_t, int32_t, int64_t>;  // kind, port, n
  struct Transfer {
    int32_t task = -1;
    int ends = 0;
  };

  absl::Status AddTransfer(Copy& copy, const At& at, SliceId slice, bool outward) {
    const PeerUse& use = alike_.peer_uses[copy.alike->first.program][at.use];
    const PeerLink& link = copy.alike->links[at.use + (use.by_microbatch ? at.microbatch : 0)];
    const int64_t n = copy.meetings[link.port]++;
    Transfer& transfer = outward ? transfers_[{link.alike, link.port_there, n}]
                                 : transfers_[{copy.kind, link.port, n}];
    const double bytes = BytesOf(*copy.program, slice);
    const TransferCost cost =
        outward ? CostOfTransfer(machine_, copy.alike->device, link.device, bytes)
                : CostOfTransfer(machine_, link.device, copy.alike->device, bytes);
    const TaskCost& own = outward ? cost.from : cost.to;
    if (transfer.task < 0) {
      transfer.task = AddTask(OwnOverhead(copy) + own.time_us, own.limit);
    }
    ++transfer.ends;
    Use(copy, transfer.task, own);
    Issue(copy, transfer.task);
    Follow(copy, at, transfer.task);
    return absl::OkStatus();
  }

  double BytesOf(const Program& program, SliceId slice) const {
    const ValueRef value = program.slices[slice.index].value;
    return static_cast<double>(ByteSize(graphs_[value.graph]->value(value.value).type));
  }

  absl::Status Add(Copy& copy, const At& at, const Collective& collective) {
    const int32_t group = copy.alike->group_kinds[at.use];
    const int64_t n = copy.collectives[{collective.node, at.instruction->stream.index}]++;
    const TensorType& type =
        plan_.graph.value(copy.program->slices[collective.inputs[0].index].value.value).type;
    MILLRACE_ASSIGN_OR_RETURN(const CollectiveSpec spec,
                              CollectiveSpecOf(plan_.graph.node(collective.node), type));
    const CollectiveCost cost =
        CostOfCollective(machine_, copy.alike->device, alike_.group_layouts[group], spec.kind,
                         static_cast<double>(ByteSize(type)));
    const auto [meeting, is_new] =
        meetings_.try_emplace({group, collective.node.index, at.instruction->stream.index, n}, -1);
    if (is_new) {
      meeting->second = AddTask(OwnOverhead(copy) + cost.task.time_us, cost.task.limit);
    }
    Use(copy, meeting->second, cost.task);
    Issue(copy, meeting->second);
    Follow(copy, at, meeting->second);
    return absl::OkStatus();
  }

  const PlanBundle& plan_;
  const MachineSpec& machine_;
  const PlanCosts& costs_;
  const Alike& alike_;
  const Section section_;
  const std::vector<const Graph*> graphs_;
  SimTasks made_;
  std::map<TransferKey, Transfer> transfers_;
  // Collectives: kind of group, node, stream, n.
  std::map<std::tuple<int32_t, int32_t, int32_t, int64_t>, int32_t> meetings_;
};

}  // namespace

int32_t DeviceResource(int32_t device_kind, Resource resource) {
  return device_kind * kNumDeviceResources + static_cast<int32_t>(resource);
}

int32_t NodeResource(const Alike& alike, int32_t node_kind, Resource resource) {
  constexpr int32_t kNumNodeResources = kNumResources - kNumDeviceResources;
  return static_cast<int32_t>(alike.devices.size()) * kNumDeviceResources +
         node_kind * kNumNodeResources + static_cast<int32_t>(resource) - kNumDeviceResources;
}

absl::StatusOr<SimTasks> MakeTasks(const PlanBundle& plan, const MachineSpec& machine,
                                   const PlanCosts& costs, const Alike& alike, Section section) {
  return TaskMaker(plan, machine, costs, alike, section).Make();
}

}  // namespace millrace
