#include "runtime/sim/simulate.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "graph/plan_json.h"
#include "graph/strings.h"
#include "runtime/sim/alike.h"
#include "runtime/sim/fluid.h"
#include "runtime/sim/sim_tasks.h"

namespace millrace {
namespace {

std::string NameOf(const PlanBundle& plan, const AlikeCopies& kind) {
  return StrCat(plan.programs[kind.first.program].device_kind, ":", kind.device.index);
}

// Streams with their spans; `made.instances` are by kind, so one kind's streams are neighbours.
std::vector<SimStream> StreamsOf(const PlanBundle& plan, const SimTasks& made, const Alike& alike,
                                 const FluidTimes& times) {
  std::vector<SimStream> streams;
  std::vector<int32_t> first_of_kind;  // into `streams`
  for (int32_t kind = 0; kind < std::ssize(alike.kinds); ++kind) {
    first_of_kind.push_back(static_cast<int32_t>(streams.size()));
    const Program& program = plan.programs[alike.kinds[kind].first.program];
    for (size_t s = 0; s < program.streams.size(); ++s) {
      streams.push_back({.copies = kind, .stream = StreamId(s), .spans = {}});
    }
  }
  for (const SimInstance& instance : made.instances) {
    SimStream& stream = streams[first_of_kind[instance.kind] + instance.instruction->stream.index];
    stream.spans.push_back({.instruction = instance.instruction,
                            .microbatch = instance.microbatch,
                            .reached_us = instance.reached < 0 ? 0 : times.end_us[instance.reached],
                            .begin_us = times.begin_us[instance.task],
                            .end_us = times.end_us[instance.task]});
  }
  std::erase_if(streams, [](const SimStream& s) { return s.spans.empty(); });
  return streams;
}

bool RunsKernel(const Instruction& instruction) {
  return std::holds_alternative<Launch>(instruction.body) ||
         std::holds_alternative<Call>(instruction.body) ||
         std::holds_alternative<HostCall>(instruction.body);
}

// Length of the union of the kernels' times on these streams.
double KernelUs(std::span<const SimStream> streams) {
  std::vector<std::pair<double, double>> times;
  for (const SimStream& stream : streams) {
    for (const SimSpan& span : stream.spans) {
      if (RunsKernel(*span.instruction)) times.emplace_back(span.begin_us, span.end_us);
    }
  }
  std::sort(times.begin(), times.end());
  double total_us = 0, covered_us = 0;  // up to here
  for (const auto& [begin_us, end_us] : times) {
    total_us += std::max(0.0, end_us - std::max(begin_us, covered_us));
    covered_us = std::max(covered_us, end_us);
  }
  return total_us;
}

std::vector<SimResource> ResourcesOf(const PlanBundle& plan, const Alike& alike,
                                     const FluidTimes& times) {
  std::vector<SimResource> resources;
  const auto add = [&](int32_t resource, Resource what, std::string owner, int64_t count) {
    const double busy_us = times.busy_us[resource];
    if (busy_us <= 0 || times.total_us <= 0) return;
    resources.push_back({.resource = what,
                         .owner = std::move(owner),
                         .count = count,
                         .busy = busy_us / times.total_us});
  };
  std::vector<bool> device_done(alike.devices.size()), node_done(alike.nodes.size());
  for (const AlikeCopies& kind : alike.kinds) {
    for (int r = 0; r < kNumResources; ++r) {
      const auto what = static_cast<Resource>(r);
      if (r < kNumDeviceResources && !device_done[kind.device_kind]) {
        add(DeviceResource(kind.device_kind, what), what, NameOf(plan, kind),
            alike.devices[kind.device_kind]);
      } else if (r >= kNumDeviceResources && !node_done[kind.node_kind]) {
        add(NodeResource(alike, kind.node_kind, what), what, StrCat("node ", kind.device.node),
            alike.nodes[kind.node_kind]);
      }
    }
    device_done[kind.device_kind] = true;
    node_done[kind.node_kind] = true;
  }
  std::stable_sort(resources.begin(), resources.end(),
                   [](const SimResource& a, const SimResource& b) { return a.busy > b.busy; });
  return resources;
}

// What stands for resource number `resource`, whoever's it is.
Resource KindOfResource(const Alike& alike, int32_t resource) {
  const int32_t of_devices = static_cast<int32_t>(alike.devices.size()) * kNumDeviceResources;
  return resource < of_devices ? static_cast<Resource>(resource % kNumDeviceResources)
                               : static_cast<Resource>(kNumDeviceResources +
                                                       (resource - of_devices) %
                                                           (kNumResources - kNumDeviceResources));
}

std::vector<SimPathPiece> CriticalPath(const SimTasks& made, const Alike& alike,
                                       const FluidTimes& times) {
  std::vector<SimPathPiece> path;
  const auto last = std::max_element(times.end_us.begin(), times.end_us.end());
  for (int32_t task = static_cast<int32_t>(last - times.end_us.begin()); task >= 0;
       task = times.last_before[task]) {
    const double length_us = times.end_us[task] - times.begin_us[task];
    if (length_us <= 0) continue;
    const SimTask& what = made.tasks[task];
    const SimInstance& instance = made.instances[what.instance];
    SimPathPiece piece{.copies = instance.kind,
                       .instruction = instance.instruction,
                       .microbatch = instance.microbatch,
                       .begin_us = times.begin_us[task],
                       .end_us = times.end_us[task],
                       .launching = what.launching,
                       .limit = what.limit};
    // Others on a resource cost it more than its own limit did.
    const bool slowed = length_us > 1.5 * made.problem.duration_us(task);
    if (slowed) piece.limit = KindOfResource(alike, times.slowed_by[task]);
    path.push_back(piece);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

absl::Status NeverBegan(const PlanBundle& plan, const SimTasks& made, const Alike& alike,
                        const FluidTimes& times) {
  for (const SimInstance& instance : made.instances) {
    if (times.end_us[instance.task] >= 0) continue;
    const AlikeCopies& kind = alike.kinds[instance.kind];
    const Program& program = plan.programs[kind.first.program];
    return InternalError(StrCat("the plan deadlocks (it was not checked): program '", program.name,
                                "' on ", NameOf(plan, kind), " never begins ",
                                DescribeInstruction(plan, program, *instance.instruction)));
  }
  return InternalError("the plan deadlocks (it was not checked)");
}

}  // namespace

absl::StatusOr<SimResult> Simulate(const PlanBundle& plan, const MachineSpec& machine,
                                   const PlanCosts& costs, const SimOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const Alike alike, FindAlike(plan, machine, options.every_copy));
  MILLRACE_ASSIGN_OR_RETURN(const SimTasks made,
                            MakeTasks(plan, machine, costs, alike, options.section));
  const FluidTimes times = Play(made.problem);
  if (times.never_begun > 0) return NeverBegan(plan, made, alike, times);
  SimResult result;
  result.time_us = times.total_us;
  result.tasks = made.problem.num_tasks();
  result.streams = StreamsOf(plan, made, alike, times);
  auto stream = result.streams.begin();
  for (int32_t kind = 0; kind < std::ssize(alike.kinds); ++kind) {
    const AlikeCopies& copies = alike.kinds[kind];
    const auto begin = stream;
    while (stream != result.streams.end() && stream->copies == kind) ++stream;
    result.copies.push_back({.first = copies.first,
                             .device = NameOf(plan, copies),
                             .count = copies.count,
                             .kernel_us = KernelUs({begin, stream})});
  }
  result.resources = ResourcesOf(plan, alike, times);
  if (result.tasks > 0) result.critical_path = CriticalPath(made, alike, times);
  return result;
}

void AddToTrace(const SimResult& result, const PlanBundle& plan, Tracer& tracer) {
  const auto to_ns = [](double time_us) { return std::llround(time_us * 1e3); };
  for (const SimStream& stream : result.streams) {
    const SimCopies& copies = result.copies[stream.copies];
    const Program& program = plan.programs[copies.first.program];
    TraceLane& lane = tracer.AddLane(copies.device, program.streams[stream.stream.index].name,
                                     copies.first.program, copies.first.coordinates);
    for (const SimSpan& span : stream.spans) {
      // What waits for others occupies its stream meanwhile.
      const double begin_us = RunsKernel(*span.instruction) ? span.begin_us : span.reached_us;
      lane.spans.push_back({.instruction = span.instruction,
                            .microbatch = span.microbatch,
                            .begin_ns = to_ns(begin_us),
                            .end_ns = to_ns(span.end_us)});
    }
  }
}

}  // namespace millrace
