// Copies of programs are vertices, coloured; devices and nodes take the colours of what runs on
// them. Colours are refined until they are stable: two copies keep one colour only if they have the
// same program, device kind and node kind, their peers have the same colours by the same routes
// through the same ports, and so have the groups they are in, member by member. (Colour refinement,
// as in Cardon and Crochemore 1982; the result is the coarsest equitable partition.)
//
// Why one copy may then stand for its colour: what happens next to a copy depends on its own
// instructions, on the peers and groups it meets, and on the load of its device's and node's
// resources. If at some moment all copies of a colour are in the same state, all of these are the
// same for each of them, since devices and nodes of one colour hold equally many copies of each
// colour. So they still are at the next moment, and at the start they are.
//
// O(rounds * (copies * peers + copies * groups) log); rounds is at most the number of kinds, and
// in a pipeline of p stages p / 2.
#include "runtime/sim/alike.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"
#include "runtime/collective_spec.h"

namespace millrace {
namespace {

constexpr int64_t kMaxCopies = int64_t{1} << 20;
constexpr int64_t kMaxLinks = int64_t{1} << 24;   // copies times peers they name
constexpr int64_t kMaxVisits = int64_t{1} << 27;  // of copies, over all rounds

// Numbers distinct keys in the order in which they come.
class Numbering {
 public:
  int32_t Of(std::vector<int64_t> key) {
    return numbers_.try_emplace(std::move(key), static_cast<int32_t>(numbers_.size()))
        .first->second;
  }
  int32_t size() const { return static_cast<int32_t>(numbers_.size()); }

 private:
  absl::flat_hash_map<std::vector<int64_t>, int32_t> numbers_;
};

bool DependsOnMicrobatch(const Peer& peer) {
  for (const auto& [axis, expr] : peer.coordinates) {
    for (const LinearTerm& term : expr.terms) {
      if (term.variable == kMicrobatchVar) return true;
    }
  }
  return false;
}

class AlikeFinder {
 public:
  AlikeFinder(const PlanBundle& plan, const MachineSpec& machine, bool every_copy)
      : plan_(plan),
        machine_(machine),
        every_copy_(every_copy),
        per_program_(plan.mesh.num_devices()) {}

  absl::StatusOr<Alike> Find() {
    MILLRACE_RETURN_IF_ERROR(PlaceCopies());
    MILLRACE_RETURN_IF_ERROR(CollectUses());
    MILLRACE_RETURN_IF_ERROR(FindLinks());
    FindGroups();
    MILLRACE_RETURN_IF_ERROR(Refine());
    MakeKinds();
    return std::move(alike_);
  }

 private:
  // What has its own link on each copy; the ends' colours are looked up when they are needed.
  struct Link {
    int32_t copy = 0;
    int32_t port = 0, port_there = 0;
  };

  using Group = std::vector<int32_t>;  // copies, in rank order
  struct Port {
    bool outward = false;
    int32_t channel = 0, there = 0;
    int32_t use = 0;  // the first one
    auto operator<=>(const Port&) const = default;
  };

  int32_t num_copies() const { return static_cast<int32_t>(devices_.size()); }
  int32_t ProgramOf(int32_t copy) const { return static_cast<int32_t>(copy / per_program_); }
  std::vector<int64_t> Coordinates(int32_t copy) const {
    return CoordinatesOf(plan_.mesh, copy % per_program_);
  }

  // --- Copies, and what they name ---
  absl::Status PlaceCopies() {
    const int64_t programs = std::ssize(plan_.programs);
    if (per_program_ > kMaxCopies || programs * per_program_ > kMaxCopies) {
      return UsageError(StrCat(programs, " programs on the mesh ", ToString(plan_.mesh),
                               " are too many to simulate; at most ", kMaxCopies, " copies are"));
    }
    std::map<std::pair<std::string, int64_t>, int32_t> devices;
    std::map<int64_t, int32_t> nodes;
    const auto number = [](auto& numbers, const auto& key) {
      return numbers.try_emplace(key, static_cast<int32_t>(numbers.size())).first->second;
    };
    for (const Program& program : plan_.programs) {
      for (int64_t i = 0; i < per_program_; ++i) {
        const std::vector<int64_t> coordinates = CoordinatesOf(plan_.mesh, i);
        const int64_t index = Evaluate(program.device_index, {.coordinates = coordinates});
        const absl::StatusOr<DeviceLocation> device =
            FindDevice(machine_, program.device_kind, index);
        if (!device.ok()) return UsageError(StdView(device.status().message()));
        devices_.push_back(*device);
        device_of_.push_back(number(devices, std::pair(program.device_kind, index)));
        node_of_.push_back(number(nodes, device->node));
      }
    }
    num_devices_ = static_cast<int32_t>(devices.size());
    num_nodes_ = static_cast<int32_t>(nodes.size());
    return absl::OkStatus();
  }

  absl::Status CollectUses() {
    int64_t links = 0;
    for (const Program& program : plan_.programs) {
      peers_ = &alike_.peer_uses.emplace_back();
      groups_ = &alike_.group_uses.emplace_back();
      auto& uses = alike_.uses.emplace_back();
      for (const Segment& segment : program.segments) {
        std::vector<int32_t>& numbers = uses.emplace_back();
        for (const Instruction& instruction : segment.instructions) {
          MILLRACE_ASSIGN_OR_RETURN(const int32_t use, UseOf(instruction));
          numbers.push_back(use);
          if (std::ssize(*peers_) > kMaxLinks) return TooManyLinks();
        }
      }
      links += std::ssize(*peers_) * per_program_;
      if (links > kMaxLinks) return TooManyLinks();
    }
    return absl::OkStatus();
  }

  absl::Status TooManyLinks() const {
    return UsageError(StrCat("programs name too many peers to simulate; at most ", kMaxLinks,
                             " over all of their copies"));
  }

  absl::StatusOr<int32_t> UseOf(const Instruction& instruction) {
    if (const auto* send = std::get_if<Send>(&instruction.body)) {
      return AddPeer(send->to, send->channel, /*outward=*/true);
    }
    if (const auto* recv = std::get_if<Recv>(&instruction.body)) {
      return AddPeer(recv->from, recv->channel, /*outward=*/false);
    }
    if (const auto* collective = std::get_if<Collective>(&instruction.body)) {
      MILLRACE_ASSIGN_OR_RETURN(GroupUse axes,
                                CollectiveAxes(plan_.graph.node(collective->node), plan_.mesh));
      const auto found = std::ranges::find(*groups_, axes);
      if (found != groups_->end()) return static_cast<int32_t>(found - groups_->begin());
      groups_->push_back(std::move(axes));
      return static_cast<int32_t>(groups_->size()) - 1;
    }
    return -1;
  }

  int32_t AddPeer(const Peer& peer, int32_t channel, bool outward) {
    const int32_t first = static_cast<int32_t>(peers_->size());
    const bool by_microbatch = DependsOnMicrobatch(peer);
    for (int32_t mb = 0; mb < (by_microbatch ? plan_.microbatches : 1); ++mb) {
      peers_->push_back({&peer, channel, by_microbatch, mb, outward});
    }
    return first;
  }

  absl::Status FindLinks() {
    links_.resize(num_copies());
    ports_.resize(num_copies());
    for (int32_t copy = 0; copy < num_copies(); ++copy) {
      const std::vector<int64_t> here = Coordinates(copy);
      std::vector<Port>& ports = ports_[copy];
      for (const PeerUse& use : alike_.peer_uses[ProgramOf(copy)]) {
        MILLRACE_ASSIGN_OR_RETURN(const int32_t there, FindPeer(here, use));
        const int32_t number = static_cast<int32_t>(links_[copy].size());
        links_[copy].push_back({.copy = there});
        ports.push_back({use.outward, use.channel, there, number});
      }
      std::sort(ports.begin(), ports.end());
    }
    for (int32_t copy = 0; copy < num_copies(); ++copy) {
      const std::vector<PeerUse>& uses = alike_.peer_uses[ProgramOf(copy)];
      for (size_t i = 0; i < uses.size(); ++i) {
        Link& link = links_[copy][i];
        link.port = FindPort(copy, uses[i].outward, uses[i].channel, link.copy);
        link.port_there = FindPort(link.copy, !uses[i].outward, uses[i].channel, copy);
      }
    }
    ports_.clear();
    return absl::OkStatus();
  }

  // The first use of a copy in this direction, on this channel, to that other copy; -1: none.
  int32_t FindPort(int32_t copy, bool outward, int32_t channel, int32_t there) const {
    const std::vector<Port>& ports = ports_[copy];
    const Port wanted = {outward, channel, there, 0};
    const auto found = std::lower_bound(ports.begin(), ports.end(), wanted);
    const bool same = found != ports.end() && found->outward == outward &&
                      found->channel == channel && found->there == there;
    return same ? found->use : -1;
  }

  absl::StatusOr<int32_t> FindPeer(const std::vector<int64_t>& here, const PeerUse& use) const {
    std::vector<int64_t> there = here;
    for (const auto& [axis, expr] : use.peer->coordinates) {
      there[axis] = Evaluate(expr, {.coordinates = here, .microbatch = use.microbatch});
      if (there[axis] < 0 || there[axis] >= plan_.mesh.axes[axis].size) {
        return UsageError(StrCat("a peer's coordinate on axis '", plan_.mesh.axes[axis].name,
                                 "' is ", there[axis], " of ", plan_.mesh.axes[axis].size));
      }
    }
    return static_cast<int32_t>(use.peer->program.index * per_program_ +
                                LinearCoordinate(there, plan_.mesh));
  }

  // A program's copies, divided into groups that differ in the axes of a use only.
  void FindGroups() {
    groups_of_use_.resize(plan_.programs.size());
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      for (const GroupUse& axes : alike_.group_uses[p]) {
        std::vector<Group>& groups = groups_of_use_[p].emplace_back();
        absl::flat_hash_map<int64_t, size_t> group_of;  // by linear coordinate of the first member
        for (int64_t i = 0; i < per_program_; ++i) {
          std::vector<int64_t> first = CoordinatesOf(plan_.mesh, i);
          for (const int axis : axes) first[axis] = 0;
          const auto [group, is_new] =
              group_of.try_emplace(LinearCoordinate(first, plan_.mesh), groups.size());
          if (is_new) groups.emplace_back();
          groups[group->second].push_back(static_cast<int32_t>(p * per_program_ + i));
        }
      }
    }
  }

  // --- Colours ---
  absl::Status Refine() {
    Numbering first;
    for (int32_t copy = 0; copy < num_copies(); ++copy) {
      const DevicePlace place = PlaceOf(machine_, devices_[copy]);
      colours_.push_back(
          first.Of({ProgramOf(copy), place.device, place.node, every_copy_ ? copy : -1}));
    }
    int64_t visits = 0;
    for (int32_t before = 0, after = first.size(); after != before;) {
      if ((visits += num_copies()) > kMaxVisits) {
        return UsageError(StrCat("the plan's ", num_copies(),
                                 " copies of programs behave in too many different ways"));
      }
      before = after;
      ColourDevicesAndNodes();
      ColourGroups();
      Numbering next;
      std::vector<int32_t> refined;
      for (int32_t copy = 0; copy < num_copies(); ++copy) refined.push_back(next.Of(KeyOf(copy)));
      colours_ = std::move(refined);
      after = next.size();
    }
    ColourDevicesAndNodes();
    ColourGroups();
    return absl::OkStatus();
  }

  std::vector<int64_t> KeyOf(int32_t copy) const {
    std::vector<int64_t> key = {colours_[copy], device_colours_[device_of_[copy]],
                                node_colours_[node_of_[copy]]};
    for (const Link& link : links_[copy]) {
      const auto route = RouteBetween(devices_[copy], devices_[link.copy]);
      key.insert(key.end(),
                 {colours_[link.copy], static_cast<int64_t>(route), link.port, link.port_there});
    }
    for (size_t use = 0; use < group_colours_[ProgramOf(copy)].size(); ++use) {
      key.push_back(group_colours_[ProgramOf(copy)][use][copy % per_program_]);
    }
    return key;
  }

  void ColourDevicesAndNodes() {
    std::vector<std::vector<int64_t>> on_device(num_devices_), on_node(num_nodes_);
    std::vector<int32_t> node_of_device(num_devices_);
    for (int32_t copy = 0; copy < num_copies(); ++copy) {
      on_device[device_of_[copy]].push_back(colours_[copy]);
      node_of_device[device_of_[copy]] = node_of_[copy];
    }
    Numbering devices, nodes;
    device_colours_.clear();
    for (int32_t d = 0; d < num_devices_; ++d) {
      std::sort(on_device[d].begin(), on_device[d].end());
      device_colours_.push_back(devices.Of(std::move(on_device[d])));
      on_node[node_of_device[d]].push_back(device_colours_.back());
    }
    node_colours_.clear();
    for (int32_t n = 0; n < num_nodes_; ++n) {
      std::sort(on_node[n].begin(), on_node[n].end());
      node_colours_.push_back(nodes.Of(std::move(on_node[n])));
    }
    device_kinds_ = devices.size();
    node_kinds_ = nodes.size();
  }

  // A group's colour: its members' colours and nodes, in rank order.
  void ColourGroups() {
    Numbering numbering;
    alike_.group_layouts.clear();
    group_colours_.assign(plan_.programs.size(), {});
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      for (const std::vector<Group>& groups : groups_of_use_[p]) {
        std::vector<int32_t>& colours = group_colours_[p].emplace_back(per_program_, -1);
        for (const Group& members : groups) {
          const int32_t colour = numbering.Of(DescribeGroup(members));
          if (colour == std::ssize(alike_.group_layouts)) {
            alike_.group_layouts.push_back(LayoutOf(members));
          }
          for (const int32_t member : members) colours[member % per_program_] = colour;
        }
      }
    }
  }

  std::vector<int64_t> DescribeGroup(const Group& members) const {
    absl::flat_hash_map<int32_t, int64_t> node_rank;
    std::vector<int64_t> description;
    for (const int32_t member : members) {
      const int64_t next = static_cast<int64_t>(node_rank.size());
      description.push_back(colours_[member]);
      description.push_back(node_rank.try_emplace(node_of_[member], next).first->second);
    }
    return description;
  }

  GroupLayout LayoutOf(const Group& members) const {
    std::map<int32_t, int64_t> on_node;
    for (const int32_t member : members) ++on_node[node_of_[member]];
    GroupLayout layout{.members = std::ssize(members), .nodes = std::ssize(on_node)};
    layout.per_node = 0;
    for (const auto& [node, count] : on_node) layout.per_node = std::max(layout.per_node, count);
    layout.even = layout.per_node * layout.nodes == layout.members;
    return layout;
  }

  // --- Result ---
  void MakeKinds() {
    for (int32_t copy = 0; copy < num_copies(); ++copy) {
      if (colours_[copy] == std::ssize(alike_.kinds)) AddKind(copy);
      ++alike_.kinds[colours_[copy]].count;
    }
    for (int32_t copy = 0; copy < num_copies(); ++copy) {
      AlikeCopies& kind = alike_.kinds[colours_[copy]];
      const int32_t first = static_cast<int32_t>(
          kind.first.program * per_program_ + LinearCoordinate(kind.first.coordinates, plan_.mesh));
      kind.per_device += device_of_[copy] == device_of_[first];
      kind.per_node += node_of_[copy] == node_of_[first];
    }
    alike_.devices.assign(device_kinds_, 0);
    alike_.nodes.assign(node_kinds_, 0);
    for (const int32_t kind : device_colours_) ++alike_.devices[kind];
    for (const int32_t kind : node_colours_) ++alike_.nodes[kind];
  }

  void AddKind(int32_t copy) {
    const int32_t program = ProgramOf(copy);
    AlikeCopies kind;
    kind.first = {program, Coordinates(copy)};
    kind.device = devices_[copy];
    kind.device_kind = device_colours_[device_of_[copy]];
    kind.node_kind = node_colours_[node_of_[copy]];
    for (const Link& link : links_[copy]) {
      kind.links.push_back({colours_[link.copy], devices_[link.copy], link.port, link.port_there});
    }
    for (const std::vector<int32_t>& colours : group_colours_[program]) {
      kind.group_kinds.push_back(colours[copy % per_program_]);
    }
    alike_.kinds.push_back(std::move(kind));
  }

  const PlanBundle& plan_;
  const MachineSpec& machine_;
  const bool every_copy_;
  const int64_t per_program_;  // copies of each program
  Alike alike_;
  std::vector<PeerUse>* peers_ = nullptr;    // of the program being collected
  std::vector<GroupUse>* groups_ = nullptr;  // likewise
  // By copy: program * per_program_ + linear coordinate.
  std::vector<DeviceLocation> devices_;
  std::vector<int32_t> device_of_, node_of_;  // numbers of those in use
  std::vector<std::vector<Link>> links_;
  std::vector<std::vector<Port>> ports_;  // sorted; only while links are made
  std::vector<int32_t> colours_;
  std::vector<std::vector<std::vector<Group>>> groups_of_use_;  // by program, use
  int32_t num_devices_ = 0, num_nodes_ = 0;
  std::vector<int32_t> device_colours_, node_colours_;
  int32_t device_kinds_ = 0, node_kinds_ = 0;
  std::vector<std::vector<std::vector<int32_t>>> group_colours_;  // program, use, coordinate
};

}  // namespace

absl::StatusOr<Alike> FindAlike(const PlanBundle& plan, const MachineSpec& machine,
                                bool every_copy) {
  return AlikeFinder(plan, machine, every_copy).Find();
}

}  // namespace millrace
