// What moving bytes along one axis of a mesh takes on a machine.
#ifndef MILLRACE_PASSES_PARALLEL_AXIS_LINKS_H_
#define MILLRACE_PASSES_PARALLEL_AXIS_LINKS_H_

#include <cstdint>

#include "graph/machine.h"
#include "graph/op_traits.h"

namespace millrace {

// Devices of one kind, `per_node` on each node, numbered node by node.
struct DevicePool {
  const MachineSpec* machine = nullptr;
  DeviceLocation first;  // any of them
  int64_t count = 1;
  int64_t per_node = 1;
};

// The machine's largest pool of devices alike: cuda where there are any, otherwise cpu.
absl::StatusOr<DevicePool> LargestPool(const MachineSpec& machine);

// Groups of `size` devices `stride` apart, all groups at once. Nodes are full: groups that leave
// their node share its network.
struct AxisGroups {
  int64_t size = 1, stride = 1;
};

// `bytes`: of a member's input.
double AxisCollectiveSeconds(const DevicePool& pool, const AxisGroups& groups, CommKind kind,
                             double bytes);
// From each device to the one `stride` further on, all at once.
double AxisShiftSeconds(const DevicePool& pool, int64_t stride, double bytes);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_AXIS_LINKS_H_
