#include "tests/sim/sim_plan.h"

#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "graph/link_cost.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"
#include "graph/text.h"

namespace millrace {
namespace {

// The node an instruction of graph 0 runs; "" for others.
std::string NodeNameOf(const PlanBundle& plan, const Instruction& instruction) {
  return std::visit(
      [&](const auto& body) -> std::string {
        if constexpr (requires { body.node; }) {
          return plan.graph.node(body.node).name;
        } else {
          return "";
        }
      },
      instruction.body);
}

TaskCost CostOf(const PlanBundle& plan, const Program& program, const MachineSpec& machine,
                const DeviceLocation& device, const NodeCosts& nodes,
                const Instruction& instruction) {
  if (const auto* copy = std::get_if<Copy>(&instruction.body)) {
    const auto space = [&](SliceId s) {
      return program.buffers[program.slices[s.index].buffer.index].space;
    };
    const ValueId value = program.slices[copy->from.index].value.value;
    return CopyCost(machine, device, space(copy->from), space(copy->to),
                    static_cast<double>(ByteSize(plan.graph.value(value).type)));
  }
  const auto found = nodes.find(NodeNameOf(plan, instruction));
  return found == nodes.end() ? TaskCost() : found->second;
}

}  // namespace

MachineSpec Cluster(int64_t nodes, int64_t devices, const std::string& kind,
                    double launch_overhead_us) {
  DeviceSpec device;
  device.name = device.kind = kind;
  device.memory_bytes = int64_t{1} << 40;
  device.memory_bandwidth = 1e12;
  device.peak_flops[DType::kF32] = 1e12;
  device.launch_overhead_us = launch_overhead_us;
  NodeSpec node;
  node.count = nodes;
  node.devices = {{kind, devices}};
  node.host_link = {.bandwidth = 1e10};
  node.peer_link = {.bandwidth = 1e11};
  MachineSpec machine;
  machine.name = "cluster";
  machine.devices = {device};
  machine.nodes = {node};
  machine.network = {.bandwidth = 1e10};
  machine.file_bandwidth = 1e9;
  Diagnostics diagnostics;
  VerifyMachine(machine, diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.ToStatus();
  return machine;
}

TaskCost Takes(double time_us) {
  TaskCost cost;
  cost.time_us = time_us;
  return cost;
}

TaskCost Takes(double time_us, Resource resource, float use) {
  TaskCost cost = Takes(time_us);
  cost[resource] = use;
  cost.limit = resource;
  return cost;
}

PlanCosts CostsOf(const PlanBundle& plan, const MachineSpec& machine, const NodeCosts& nodes) {
  PlanCosts costs;
  for (const Program& program : plan.programs) {
    auto& by_place = costs.programs.emplace_back();
    for (int64_t i = 0; i < plan.mesh.num_devices(); ++i) {
      const std::vector<int64_t> coordinates = CoordinatesOf(plan.mesh, i);
      const absl::StatusOr<DeviceLocation> device =
          FindDevice(machine, program.device_kind,
                     Evaluate(program.device_index, {.coordinates = coordinates}));
      if (!device.ok()) continue;  // the simulator says so
      ProgramCosts& of_place = by_place[PlaceOf(machine, *device)];
      if (!of_place.empty()) continue;
      for (const Segment& segment : program.segments) {
        auto& list = of_place.emplace_back();
        for (const Instruction& instruction : segment.instructions) {
          list.push_back(CostOf(plan, program, machine, *device, nodes, instruction));
        }
      }
    }
  }
  return costs;
}

SimResult SimulateOrDie(const PlanBundle& plan, const MachineSpec& machine,
                        const NodeCosts& nodes) {
  const PlanCosts costs = CostsOf(plan, machine, nodes);
  absl::StatusOr<SimResult> merged = Simulate(plan, machine, costs);
  const absl::StatusOr<SimResult> every = Simulate(plan, machine, costs, {.every_copy = true});
  EXPECT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(every.ok()) << every.status();
  if (!merged.ok() || !every.ok()) return {};
  EXPECT_NEAR(merged->time_us, every->time_us, 1e-9 * every->time_us);
  EXPECT_LE(merged->copies.size(), every->copies.size());
  return *std::move(merged);
}

std::string Timeline(const PlanBundle& plan, const SimResult& result, int32_t copies,
                     const std::string& stream) {
  std::string text;
  for (const SimStream& s : result.streams) {
    const Program& program = plan.programs[result.copies[s.copies].first.program];
    if (s.copies != copies || program.streams[s.stream.index].name != stream) continue;
    for (const SimSpan& span : s.spans) {
      if (span.reached_us == span.end_us) continue;
      const std::string node = NodeNameOf(plan, *span.instruction);
      StrAppend(&text, text.empty() ? "" : ", ",
                node.empty() ? InstructionKindName(span.instruction->body) : node,
                absl::StrFormat(" %g %g", span.begin_us, span.end_us));
    }
  }
  return text;
}

PlanBundle BundleOf(Graph graph, std::vector<Program> programs, int32_t microbatches,
                    const std::string& mesh) {
  PlanBundle plan;
  plan.name = "test";
  plan.microbatches = microbatches;
  plan.mesh = ParseMesh(mesh).value();
  plan.graph = std::move(graph);
  plan.programs = std::move(programs);
  return plan;
}

Graph GraphFromText(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraphText(text, "test");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

}  // namespace millrace
