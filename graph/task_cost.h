// TaskCost: what one piece of work takes of a machine, as numbers: how long it takes alone, and how
// much of each shared resource it keeps busy meanwhile. What planners estimate and the simulator
// plays.
#ifndef MILLRACE_GRAPH_TASK_COST_H_
#define MILLRACE_GRAPH_TASK_COST_H_

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace millrace {

// What instructions share. A link with one direction for both (half duplex) is its "to" resource.
enum class Resource : uint8_t {
  // Of each device.
  kCompute,     // arithmetic; on a cpu device its cores, whatever they do
  kMemory,      // bandwidth of its memory
  kCopyEngine,  // all of its engines together
  kToHost,      // its link to host memory, by direction
  kFromHost,
  kToPeers,  // its link to devices of the same node, by direction
  kFromPeers,
  // Of each node.
  kHostMemory,  // bandwidth of it
  kToNetwork,   // by direction
  kFromNetwork,
  kFile,  // the offload folder
};
inline constexpr int kNumDeviceResources = 7;
inline constexpr int kNumResources = 11;
std::string_view ResourceName(Resource resource);  // "compute", "memory", "link to host", ...

struct TaskCost {
  double time_us = 0;  // alone on the machine, without the overhead of launching it
  std::array<float, kNumResources> use{};  // of each resource's rate while alone, 0 to 1
  // The resource that would have to be faster; nullopt when fixed costs (latency) dominate.
  std::optional<Resource> limit = {};

  float& operator[](Resource r) { return use[static_cast<int>(r)]; }
  float operator[](Resource r) const { return use[static_cast<int>(r)]; }
};

// The cost of each instruction of a program on one kind of device, by segment and instruction.
// Instructions whose cost depends on where a peer is (Send, Recv, Collective) are left at zero.
using ProgramCosts = std::vector<std::vector<TaskCost>>;

// A kind of device in a kind of node: indices into MachineSpec::devices and nodes. Costs depend on
// nothing else of a device.
struct DevicePlace {
  int device = 0;
  int node = 0;
  auto operator<=>(const DevicePlace&) const = default;
};

// The costs of a plan on a machine: by program, for each place where a copy of it runs.
struct PlanCosts {
  std::vector<std::map<DevicePlace, ProgramCosts>> programs;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TASK_COST_H_
