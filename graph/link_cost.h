// How long bytes take over the memories and links of a MachineSpec: copies, transfers from device
// to device, collectives. Arithmetic over the machine's numbers, here because planners and the
// simulator, which must not see each other, have to agree on it. Formulas and their sources are in
// link_cost.cc.
#ifndef MILLRACE_GRAPH_LINK_COST_H_
#define MILLRACE_GRAPH_LINK_COST_H_

#include <cstdint>
#include <string_view>

#include "graph/machine.h"
#include "graph/op_traits.h"
#include "graph/plan.h"
#include "graph/task_cost.h"

namespace millrace {

// The node with linear index `node` (DeviceLocation::node), which is one of the machine's.
const NodeSpec& NodeAt(const MachineSpec& machine, int64_t node);

// Which kind of device in which kind of node it is.
DevicePlace PlaceOf(const MachineSpec& machine, const DeviceLocation& device);

// latency + bytes / bandwidth.
double TransferTimeUs(const LinkSpec& link, double bytes);

// --- Copies of one device -----------------------------------------------------------------------
// `bytes` from one of its memory spaces to another. Spaces in files need a machine with
// file_bandwidth.
TaskCost CopyCost(const MachineSpec& machine, const DeviceLocation& device, MemorySpace from,
                  MemorySpace to, double bytes);

// --- From device to device ----------------------------------------------------------------------
enum class Route : uint8_t {
  kSameDevice,
  kPeers,    // over the node's peer link
  kHost,     // between a cuda and a cpu device of one node: over the host link
  kNetwork,  // between nodes; a cuda device reaches the network over its host link
};
Route RouteBetween(const DeviceLocation& from, const DeviceLocation& to);
std::string_view RouteName(Route route);  // "same device", "peer link", ...

// What a transfer takes at either end; both take the same time. It depends on the ends' specs,
// their nodes' specs and the route alone.
struct TransferCost {
  TaskCost from, to;
};
TransferCost CostOfTransfer(const MachineSpec& machine, const DeviceLocation& from,
                            const DeviceLocation& to, double bytes);

// --- Collectives --------------------------------------------------------------------------------
// How the members of a group lie on nodes. Members are numbered node by node.
struct GroupLayout {
  int64_t members = 1;
  int64_t nodes = 1;
  int64_t per_node = 1;  // the most on one node
  bool even = true;      // the same number on each node
};

enum class CollectiveAlgorithm : uint8_t { kNone, kRing, kTree, kHierarchical, kPairwise };
std::string_view CollectiveAlgorithmName(CollectiveAlgorithm algorithm);  // "ring", ...

// What a collective takes of one member, by its fastest algorithm. `bytes` is the size of a
// member's input. `device` is any member: groups are of devices alike.
struct CollectiveCost {
  TaskCost task;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kNone;
};
CollectiveCost CostOfCollective(const MachineSpec& machine, const DeviceLocation& device,
                                const GroupLayout& layout, CommKind kind, double bytes);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_LINK_COST_H_
