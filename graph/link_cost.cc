// Point to point: latency + bytes / bandwidth, the bandwidth being that of the slowest part of the
// way; every part is busy for its own share of that time.
//
// Collectives, for n members with S bytes each, links of latency a and bandwidth b:
//
//   AllReduce      ring          2 (n-1) a + 2 (n-1)/n S/b          Patarasuk, Yuan 2009,
//   "Bandwidth
//                                                                   optimal all-reduce algorithms"
//                  tree          2 log2(n) a + 2 S/b                two trees, pipelined: Sanders,
//                                                                   Speck, Traeff 2009
//   AllGather      ring          (n-1) a + (n-1) S/b                Thakur, Rabenseifner, Gropp
//   2005, ReduceScatter  ring          (n-1) a + (n-1)/n S/b              "Optimization of
//   collective AllToAll       pairwise      (n-1) a + (n-1)/n S/b              communication
//   operations in Broadcast      ring          (n-1) a + S/b (pipelined)          MPICH"
//                  tree          log2(n) (a + S/b)
//
// Over several nodes a ring passes each node once: all of it goes at the rate of one flow through
// the network. Where each node has k members, the hierarchical form of AllReduce, AllGather and
// ReduceScatter works within nodes first and then in k flows side by side between members of equal
// rank (each with 1/k of the bytes), sharing the node's network: the phases' times add up.
#include "graph/link_cost.h"

#include <algorithm>
#include <cmath>

#include "graph/assert.h"

namespace millrace {
namespace {

bool OnCpu(const DeviceLocation& device) { return device.spec->kind == "cpu"; }

// Time for `amount` at `rate` a second.
double TimeUs(double amount, double rate) { return rate > 0 ? amount / rate * 1e6 : 0; }

// Says that the task moves `bytes` (more) through a resource of `rate` bytes/s during its time.
void Use(TaskCost& task, Resource resource, double bytes, double rate) {
  if (task.time_us <= 0 || rate <= 0) return;
  const double use = task[resource] + TimeUs(bytes, rate) / task.time_us;
  task[resource] = static_cast<float>(std::min(1.0, use));
}

// The most used resource, when it is busy for more than half of the time.
void SetLimit(TaskCost& task) {
  const auto most = std::max_element(task.use.begin(), task.use.end());
  if (*most >= 0.5f) task.limit = static_cast<Resource>(most - task.use.begin());
}

Resource ToOrBoth(const LinkSpec& link, Resource to, Resource from, bool outward) {
  return outward || !link.full_duplex ? to : from;
}

// --- Copies -------------------------------------------------------------------------------------

// Within one memory, which is read and written.
TaskCost MemoryCopy(double bytes, double bandwidth, Resource memory) {
  TaskCost task;
  task.time_us = TimeUs(2 * bytes, bandwidth);
  Use(task, memory, 2 * bytes, bandwidth);
  SetLimit(task);
  return task;
}

// The work of a copy that a core does.
void UseOneCore(TaskCost& task, const DeviceSpec& cpu) {
  if (task.time_us > 0) task[Resource::kCompute] = 1.0f / static_cast<float>(cpu.threads);
}

void UseHostLink(TaskCost& task, const NodeSpec& node, double bytes, bool outward) {
  Use(task, ToOrBoth(node.host_link, Resource::kToHost, Resource::kFromHost, outward), bytes,
      node.host_link.bandwidth);
}

TaskCost FileCopy(const MachineSpec& machine, const DeviceLocation& device, MemorySpace from,
                  MemorySpace to, double bytes) {
  const NodeSpec& node = NodeAt(machine, device.node);
  const bool out = from == MemorySpace::kDevice;
  const bool over_link = (out || to == MemorySpace::kDevice) && !OnCpu(device);
  TaskCost task;
  task.time_us = TimeUs(bytes, machine.file_bandwidth);
  if (over_link) task.time_us = std::max(task.time_us, TransferTimeUs(node.host_link, bytes));
  Use(task, Resource::kFile, bytes, machine.file_bandwidth);
  if (over_link) UseHostLink(task, node, bytes, out);
  SetLimit(task);
  return task;
}

TaskCost HostLinkCopy(const DeviceLocation& device, const NodeSpec& node, bool to_host,
                      double bytes) {
  const DeviceSpec& spec = *device.spec;
  TaskCost task;
  task.time_us = TransferTimeUs(node.host_link, bytes);
  UseHostLink(task, node, bytes, to_host);
  Use(task, Resource::kMemory, bytes, spec.memory_bandwidth);
  Use(task, Resource::kHostMemory, bytes, node.host_memory_bandwidth);
  SetLimit(task);
  // Without engines of its own the device copies with its kernels.
  if (spec.copy_engines > 0) {
    task[Resource::kCopyEngine] = 1.0f / static_cast<float>(spec.copy_engines);
  } else {
    task[Resource::kCompute] = 1;
  }
  return task;
}

}  // namespace

std::string_view ResourceName(Resource resource) {
  constexpr std::string_view kNames[kNumResources] = {
      "compute",        "memory",        "copy engines",    "link to host",
      "link from host", "link to peers", "link from peers", "host memory",
      "network out",    "network in",    "offload file"};
  return kNames[static_cast<int>(resource)];
}

const NodeSpec& NodeAt(const MachineSpec& machine, int64_t node) {
  for (const NodeSpec& spec : machine.nodes) {
    if (node < spec.count) return spec;
    node -= spec.count;
  }
  MILLRACE_CHECK(false && "no such node");
}

DevicePlace PlaceOf(const MachineSpec& machine, const DeviceLocation& device) {
  return {.device = static_cast<int>(device.spec - machine.devices.data()),
          .node = static_cast<int>(&NodeAt(machine, device.node) - machine.nodes.data())};
}

double TransferTimeUs(const LinkSpec& link, double bytes) {
  return link.latency_us + TimeUs(bytes, link.bandwidth);
}

TaskCost CopyCost(const MachineSpec& machine, const DeviceLocation& device, MemorySpace from,
                  MemorySpace to, double bytes) {
  const NodeSpec& node = NodeAt(machine, device.node);
  const auto either = [&](MemorySpace space) { return from == space || to == space; };
  if (either(MemorySpace::kFile)) return FileCopy(machine, device, from, to, bytes);
  if (OnCpu(device)) {
    TaskCost task = MemoryCopy(bytes, device.spec->memory_bandwidth, Resource::kMemory);
    UseOneCore(task, *device.spec);
    return task;
  }
  if (!either(MemorySpace::kDevice)) {
    const double rate = node.host_memory_bandwidth;
    return MemoryCopy(bytes, rate > 0 ? rate : node.host_link.bandwidth, Resource::kHostMemory);
  }
  if (from == to) {
    return MemoryCopy(bytes, device.spec->memory_bandwidth, Resource::kMemory);
  }
  return HostLinkCopy(device, node, /*to_host=*/to == MemorySpace::kHost, bytes);
}

// --- From device to device ----------------------------------------------------------------------

Route RouteBetween(const DeviceLocation& from, const DeviceLocation& to) {
  if (from.node != to.node) return Route::kNetwork;
  if (from.spec->kind != to.spec->kind) return Route::kHost;
  return from.index == to.index ? Route::kSameDevice : Route::kPeers;
}

std::string_view RouteName(Route route) {
  constexpr std::string_view kNames[] = {"same device", "peer link", "host link", "network"};
  return kNames[static_cast<int>(route)];
}

namespace {

// The rate of one flow between a device and the network.
double NetworkRate(const MachineSpec& machine, const DeviceLocation& device) {
  const double rate = machine.network.bandwidth;
  return OnCpu(device) ? rate : std::min(rate, NodeAt(machine, device.node).host_link.bandwidth);
}

void UseNetwork(TaskCost& task, const MachineSpec& machine, const DeviceLocation& device,
                double bytes, bool outward) {
  const LinkSpec& network = machine.network;
  Use(task, ToOrBoth(network, Resource::kToNetwork, Resource::kFromNetwork, outward), bytes,
      network.bandwidth);
  if (OnCpu(device)) return;
  const LinkSpec& host = NodeAt(machine, device.node).host_link;
  Use(task, ToOrBoth(host, Resource::kToHost, Resource::kFromHost, outward), bytes, host.bandwidth);
}

void UsePeers(TaskCost& task, const NodeSpec& node, double bytes, bool outward) {
  Use(task, ToOrBoth(node.peer_link, Resource::kToPeers, Resource::kFromPeers, outward), bytes,
      node.peer_link.bandwidth);
}

}  // namespace

TransferCost CostOfTransfer(const MachineSpec& machine, const DeviceLocation& from,
                            const DeviceLocation& to, double bytes) {
  const Route route = RouteBetween(from, to);
  const NodeSpec& node = NodeAt(machine, from.node);
  TransferCost cost;
  if (route == Route::kSameDevice) {
    cost.from = MemoryCopy(bytes, from.spec->memory_bandwidth, Resource::kMemory);
    cost.to.time_us = cost.from.time_us;
    return cost;
  }
  LinkSpec link = route == Route::kPeers  ? node.peer_link
                  : route == Route::kHost ? node.host_link
                                          : machine.network;
  if (route == Route::kNetwork) {
    link.bandwidth = std::min(NetworkRate(machine, from), NetworkRate(machine, to));
  }
  for (const bool outward : {true, false}) {
    TaskCost& end = outward ? cost.from : cost.to;
    const DeviceLocation& device = outward ? from : to;
    end.time_us = TransferTimeUs(link, bytes);
    Use(end, Resource::kMemory, bytes, device.spec->memory_bandwidth);
    switch (route) {
      case Route::kPeers:
        UsePeers(end, node, bytes, outward);
        break;
      case Route::kHost:
        // The link is the cuda device's.
        if (!OnCpu(device)) UseHostLink(end, node, bytes, outward);
        break;
      default:
        UseNetwork(end, machine, device, bytes, outward);
    }
    SetLimit(end);
  }
  return cost;
}

// --- Collectives --------------------------------------------------------------------------------
namespace {

// One way to run a collective, for one member: its time, and the bytes that leave it (as many
// arrive) over the peer link and over the network.
struct Plan {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kNone;
  double time_us = 0;
  double peer_bytes = 0, network_bytes = 0;
};

class CollectivePlanner {
 public:
  CollectivePlanner(const MachineSpec& machine, const DeviceLocation& device,
                    const GroupLayout& layout)
      : n_(static_cast<double>(layout.members)),
        m_(static_cast<double>(layout.nodes)),
        k_(static_cast<double>(layout.per_node)),
        nested_(layout.even && layout.nodes > 1 && layout.per_node > 1),
        peer_(OneWay(NodeAt(machine, device.node).peer_link)),
        network_(OneWay(machine.network)),
        one_flow_(network_) {
    one_flow_.bandwidth = std::min(one_flow_.bandwidth, NetworkRate(machine, device));
  }

  Plan Best(CommKind kind, double bytes) const {
    Plan best;
    const auto consider = [&](const Plan& plan) {
      if (best.algorithm == CollectiveAlgorithm::kNone || plan.time_us < best.time_us) best = plan;
    };
    switch (kind) {
      case CommKind::kAllReduce:
        consider(Ring(2 * (n_ - 1), 2 * (n_ - 1) / n_ * bytes));
        consider(Tree(2, 2 * bytes));
        if (nested_) consider(Nested(2, bytes));
        break;
      case CommKind::kAllGather:
        consider(Ring(n_ - 1, (n_ - 1) * bytes));
        if (nested_) consider(Nested(1, n_ * bytes));
        break;
      case CommKind::kReduceScatter:
        consider(Ring(n_ - 1, (n_ - 1) / n_ * bytes));
        if (nested_) consider(Nested(1, bytes));
        break;
      case CommKind::kAllToAll:
        consider(Pairwise(bytes));
        break;
      case CommKind::kBroadcast:
        consider(Ring(n_ - 1, bytes));
        consider(Tree(1, std::ceil(std::log2(n_)) * bytes));
        break;
      default:
        break;
    }
    return best;
  }

 private:
  // Every member sends and receives at the same time.
  static LinkSpec OneWay(LinkSpec link) {
    if (!link.full_duplex) link.bandwidth /= 2;
    return link;
  }

  // A ring in which each member passes on `bytes` in `steps` steps, node by node.
  Plan Ring(double steps, double bytes) const {
    const LinkSpec link = Slowest();
    Plan plan{CollectiveAlgorithm::kRing, steps * link.latency_us + TimeUs(bytes, link.bandwidth)};
    Divide(bytes, plan);
    return plan;
  }

  // `rounds` passes over trees (up, down) that move `bytes` in all. Nodes are trees' inner levels.
  Plan Tree(double rounds, double bytes) const {
    const LinkSpec link = Slowest();
    const double latency_us = m_ > 1 ? std::ceil(std::log2(m_)) * one_flow_.latency_us +
                                           std::ceil(std::log2(k_)) * peer_.latency_us
                                     : std::ceil(std::log2(k_)) * peer_.latency_us;
    Plan plan{CollectiveAlgorithm::kTree, rounds * latency_us + TimeUs(bytes, link.bandwidth)};
    Divide(bytes, plan);
    return plan;
  }

  // Scatter or gather `bytes` within nodes and between them, `rounds` times.
  Plan Nested(double rounds, double bytes) const {
    const double within = (k_ - 1) / k_ * bytes, between = (m_ - 1) / m_ * bytes / k_;
    Plan plan{CollectiveAlgorithm::kHierarchical};
    plan.time_us = rounds * ((k_ - 1) * peer_.latency_us + TimeUs(within, peer_.bandwidth) +
                             (m_ - 1) * one_flow_.latency_us + TimeUs(between, FlowRate(k_)));
    plan.peer_bytes = rounds * within;
    plan.network_bytes = rounds * between;
    return plan;
  }

  // Each member sends an equal part to each other one; nodes send side by side.
  Plan Pairwise(double bytes) const {
    Plan plan{CollectiveAlgorithm::kPairwise};
    plan.peer_bytes = (k_ - 1) / n_ * bytes;
    plan.network_bytes = (n_ - k_) / n_ * bytes;
    const double within = (k_ - 1) * peer_.latency_us + TimeUs(plan.peer_bytes, peer_.bandwidth);
    const double between =
        m_ > 1 ? (n_ - k_) * one_flow_.latency_us + TimeUs(plan.network_bytes, FlowRate(k_)) : 0;
    plan.time_us = std::max(within, between);
    return plan;
  }

  // What one chain through all members goes at.
  LinkSpec Slowest() const {
    if (m_ <= 1) return peer_;
    if (k_ <= 1) return one_flow_;
    return {.bandwidth = std::min(peer_.bandwidth, one_flow_.bandwidth),
            .latency_us = std::max(peer_.latency_us, one_flow_.latency_us)};
  }

  // Of each of `flows` that leave a node side by side.
  double FlowRate(double flows) const {
    return std::min(one_flow_.bandwidth, network_.bandwidth / flows);
  }

  // One of a node's k members is the one whose bytes leave the node: an average over them.
  void Divide(double bytes, Plan& plan) const {
    plan.network_bytes = m_ > 1 ? bytes / k_ : 0;
    plan.peer_bytes = bytes - plan.network_bytes;
  }

  const double n_, m_, k_;  // members, nodes, members a node
  const bool nested_;       // the hierarchical form applies
  const LinkSpec peer_, network_;
  LinkSpec one_flow_;  // of the network
};

}  // namespace

std::string_view CollectiveAlgorithmName(CollectiveAlgorithm algorithm) {
  constexpr std::string_view kNames[] = {"none", "ring", "tree", "hierarchical", "pairwise"};
  return kNames[static_cast<int>(algorithm)];
}

CollectiveCost CostOfCollective(const MachineSpec& machine, const DeviceLocation& device,
                                const GroupLayout& layout, CommKind kind, double bytes) {
  CollectiveCost cost;
  if (layout.members <= 1) return cost;
  const Plan plan = CollectivePlanner(machine, device, layout).Best(kind, bytes);
  const NodeSpec& node = NodeAt(machine, device.node);
  cost.algorithm = plan.algorithm;
  cost.task.time_us = plan.time_us;
  for (const bool outward : {true, false}) {
    if (layout.per_node > 1) UsePeers(cost.task, node, plan.peer_bytes, outward);
    if (layout.nodes > 1) UseNetwork(cost.task, machine, device, plan.network_bytes, outward);
  }
  // What arrives is written, what leaves is read.
  Use(cost.task, Resource::kMemory, 2 * (plan.peer_bytes + plan.network_bytes),
      device.spec->memory_bandwidth);
  SetLimit(cost.task);
  return cost;
}

}  // namespace millrace
