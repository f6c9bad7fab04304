#include "passes/parallel/axis_links.h"

#include <algorithm>

#include "graph/link_cost.h"

namespace millrace {
namespace {

// The machine with a network of which every node has 1 / `sharers`.
MachineSpec WithSharedNetwork(const MachineSpec& machine, int64_t sharers) {
  MachineSpec shared = machine;
  shared.network.bandwidth /= static_cast<double>(std::max<int64_t>(1, sharers));
  return shared;
}

// A location is by pointer into its machine.
DeviceLocation In(const MachineSpec& machine, const DevicePool& pool) {
  DeviceLocation location = pool.first;
  location.spec = machine.devices.data() + (pool.first.spec - pool.machine->devices.data());
  return location;
}

}  // namespace

absl::StatusOr<DevicePool> LargestPool(const MachineSpec& machine) {
  for (const char* kind : {"cuda", "cpu"}) {
    DevicePool best;
    best.count = 0;
    int64_t index = 0, node_index = 0;
    for (const NodeSpec& node : machine.nodes) {
      for (const auto& [name, count] : node.devices) {
        const std::string& wanted = name;
        const auto spec = std::find_if(machine.devices.begin(), machine.devices.end(),
                                       [&](const DeviceSpec& d) { return d.name == wanted; });
        if (spec == machine.devices.end() || spec->kind != kind) continue;
        if (count * node.count > best.count) {
          best = {&machine, {&*spec, node_index, index}, count * node.count, count};
        }
        index += count * node.count;
      }
      node_index += node.count;
    }
    if (best.count > 0) return best;
  }
  return BadInputError("the machine has no devices");
}

double AxisCollectiveSeconds(const DevicePool& pool, const AxisGroups& groups, CommKind kind,
                             double bytes) {
  if (groups.size <= 1) return 0;
  const int64_t per_node =
      std::clamp<int64_t>(pool.per_node / std::max<int64_t>(1, groups.stride), 1, groups.size);
  GroupLayout layout = {.members = groups.size,
                        .nodes = (groups.size + per_node - 1) / per_node,
                        .per_node = per_node,
                        .even = groups.size % per_node == 0};
  const MachineSpec machine =
      WithSharedNetwork(*pool.machine, layout.nodes > 1 ? pool.per_node / per_node : 1);
  return 1e-6 * CostOfCollective(machine, In(machine, pool), layout, kind, bytes).task.time_us;
}

double AxisShiftSeconds(const DevicePool& pool, int64_t stride, double bytes) {
  const int64_t crossing = std::min(stride, pool.per_node);
  const bool leaves = stride >= pool.per_node;
  const MachineSpec machine = WithSharedNetwork(*pool.machine, leaves ? crossing : 1);
  DeviceLocation from = In(machine, pool), to = from;
  to.index += stride;
  if (leaves) to.node += 1;
  return 1e-6 * CostOfTransfer(machine, from, to, bytes).from.time_us;
}

}  // namespace millrace
