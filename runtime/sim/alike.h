// Which copies of a plan's programs behave alike on a machine, so that the simulator plays one of
// each kind however many devices there are.
#ifndef MILLRACE_RUNTIME_SIM_ALIKE_H_
#define MILLRACE_RUNTIME_SIM_ALIKE_H_

#include <cstdint>
#include <vector>

#include "graph/link_cost.h"
#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

// A peer that a Send or Recv names, for one microbatch when it depends on that.
struct PeerUse {
  const Peer* peer = nullptr;
  int32_t channel = 0;
  bool by_microbatch = false;
  int32_t microbatch = 0;
  bool outward = false;  // of a Send
};

// The other end of a PeerUse, for one copy of the program.
struct PeerLink {
  int32_t alike = 0;  // its kind
  DeviceLocation device;
  // Uses of one channel in one direction that lead to the same end are one port, named by the first
  // of them. The n-th Send through a port meets the n-th Recv through the port at the other end.
  int32_t port = 0, port_there = 0;
};

// One kind: copies of one program that do the same at the same time.
struct AlikeCopies {
  Endpoint first;         // stands for all
  DeviceLocation device;  // of the first
  int64_t count = 0;
  int32_t device_kind = 0, node_kind = 0;  // devices and nodes fall into kinds as well
  int64_t per_device = 0, per_node = 0;    // copies on each device and node of those kinds
  std::vector<PeerLink> links;             // by PeerUse of the program
  std::vector<int32_t> group_kinds;        // by GroupUse of the program
};

// The mesh axes of a Collective, ascending.
using GroupUse = std::vector<int>;

struct Alike {
  std::vector<AlikeCopies> kinds;                 // by program, then by first coordinate
  std::vector<std::vector<PeerUse>> peer_uses;    // by program
  std::vector<std::vector<GroupUse>> group_uses;  // by program
  std::vector<GroupLayout> group_layouts;         // by kind of group
  std::vector<int64_t> devices, nodes;            // how many of each kind
  // By program, segment and instruction: the first PeerUse of a Send or Recv (the next ones are for
  // the microbatches after), the GroupUse of a Collective; -1.
  std::vector<std::vector<std::vector<int32_t>>> uses;
};

// `every_copy`: each copy is a kind of its own. UsageError when the machine lacks a device of the
// plan, or when there are too many copies or peers to look at.
absl::StatusOr<Alike> FindAlike(const PlanBundle& plan, const MachineSpec& machine,
                                bool every_copy = false);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SIM_ALIKE_H_
