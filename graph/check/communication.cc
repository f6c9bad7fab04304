#include "graph/check/communication.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/hash/hash.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class Pairer {
 public:
  Pairer(const PlanModel& model, const MeshClasses& classes, std::span<const PlanSite> sites,
         const SectionIndex& index, Communication& communication, ErrorList& errors)
      : model_(model),
        classes_(classes),
        names_(model, classes),
        sites_(sites),
        index_(index),
        communication_(communication),
        errors_(errors) {}

  bool Run() {
    const int64_t before = errors_.total();
    communication_.rendezvous_of.resize(sites_.size());
    communication_.previous_of.resize(sites_.size());
    for (size_t s = 0; s < sites_.size(); ++s) {
      const size_t count = index_.programs[sites_[s].program].communications.size();
      communication_.rendezvous_of[s].assign(count, -1);
      communication_.previous_of[s].assign(count, -1);
      Collect(static_cast<int32_t>(s));
    }
    if (errors_.total() != before) return false;  // the rest would not pair up either
    for (const auto& [key, channel] : channels_) PairChannel(std::get<2>(key), channel);
    for (const auto& [key, members] : groups_) AddRendezvous(members);
    return errors_.total() == before;
  }

 private:
  using ChannelKey = std::tuple<int32_t, int32_t, int32_t>;  // from site, to site, channel
  using GroupKey = std::tuple<int32_t, int32_t, int64_t>;    // program, instance, rest of mesh
  struct Channel {
    std::vector<Arrival> sends, recvs;
  };

  const Instruction& InstructionAt(const Arrival& a) const {
    const int32_t p = sites_[a.site].program;
    return InstructionOf(model_.program(p), index_.section,
                         index_.programs[p].instances[a.instance]);
  }

  void Collect(int32_t s) {
    const ProgramSection& section = index_.programs[sites_[s].program];
    for (int32_t id : section.communications) {
      const Arrival arrival{s, id};
      const InstructionBody& body = InstructionAt(arrival).body;
      if (const Send* send = std::get_if<Send>(&body)) {
        const int32_t to = PeerSite(arrival, send->to);
        if (to >= 0) Append(channels_[{s, to, send->channel}].sends, arrival);
      } else if (const Recv* recv = std::get_if<Recv>(&body)) {
        const int32_t from = PeerSite(arrival, recv->from);
        if (from >= 0) Append(channels_[{from, s, recv->channel}].recvs, arrival);
      } else {
        groups_[GroupOf(arrival, std::get<Collective>(body))].push_back(arrival);
      }
    }
  }

  void Append(std::vector<Arrival>& list, const Arrival& arrival) {
    if (!list.empty())
      communication_.previous_of[arrival.site][LinkOf(arrival)] = list.back().instance;
    list.push_back(arrival);
  }

  int32_t LinkOf(const Arrival& a) const {
    return index_.programs[sites_[a.site].program].instances[a.instance].link;
  }

  // The site the peer is at; -1, with an error, when there is none.
  int32_t PeerSite(const Arrival& arrival, const Peer& peer) {
    const PlanSite& site = sites_[arrival.site];
    const Program& program = model_.program(site.program);
    const IssuedInstance& instance = index_.programs[site.program].instances[arrival.instance];
    const std::vector<int64_t>& self = classes_.coordinates[site.coordinate];
    std::vector<int64_t> to = self;
    for (const auto& [axis, expr] : peer.coordinates) {
      const MeshAxis& a = model_.plan->mesh.axes[axis];
      to[axis] =
          Evaluate(expr, {.coordinates = self,
                          .microbatch = ItemOf(program, index_.section, instance).microbatch});
      if (to[axis] >= 0 && to[axis] < a.size) continue;
      Report(arrival, StrCat("its peer is at ", a.name, "=", to[axis], "; the axis has ", a.size,
                             " coordinates"));
      return -1;
    }
    const int32_t coordinate = classes_.Find(to, model_.plan->mesh);
    MILLRACE_CHECK(coordinate >= 0);  // representatives are closed under peers
    return peer.program.index * static_cast<int32_t>(classes_.coordinates.size()) + coordinate;
  }

  // Members agree on program, instance, and coordinates of the axes that the node does not name.
  GroupKey GroupOf(const Arrival& arrival, const Collective& collective) const {
    std::vector<int> axes;
    CommAxes(model_.plan->graph.node(collective.node), model_.plan->mesh, axes);
    const PlanSite& site = sites_[arrival.site];
    std::vector<int64_t> rest = classes_.coordinates[site.coordinate];
    for (int axis : axes) rest[axis] = 0;
    return {site.program, arrival.instance, LinearCoordinate(rest, model_.plan->mesh)};
  }

  void AddRendezvous(std::span<const Arrival> members) {
    const int32_t id = static_cast<int32_t>(communication_.rendezvous.size());
    communication_.rendezvous.push_back({static_cast<int32_t>(communication_.arrivals.size()),
                                         static_cast<int32_t>(members.size())});
    for (const Arrival& a : members) {
      communication_.arrivals.push_back(a);
      communication_.rendezvous_of[a.site][LinkOf(a)] = id;
    }
  }

  void PairChannel(int32_t id, const Channel& channel) {
    const size_t pairs = std::min(channel.sends.size(), channel.recvs.size());
    for (size_t i = 0; i < pairs; ++i) {
      CheckPair(channel.sends[i], channel.recvs[i]);
      const Arrival both[] = {channel.sends[i], channel.recvs[i]};
      AddRendezvous(both);
    }
    const auto left_over = [&](const std::vector<Arrival>& list, std::string_view other) {
      if (list.size() <= pairs) return;
      Report(list[pairs],
             StrCat("it waits forever: on channel ", id, " there are ", channel.sends.size(),
                    " sends and ", channel.recvs.size(), " recvs, so its ", other, " is missing"));
    };
    left_over(channel.sends, "recv");
    left_over(channel.recvs, "send");
  }

  void CheckPair(const Arrival& send, const Arrival& recv) {
    const Slice& from = SliceOf(send, std::get<Send>(InstructionAt(send).body).from);
    const Slice& to = SliceOf(recv, std::get<Recv>(InstructionAt(recv).body).to);
    const DType sent = model_.graphs.value(from.value).type.dtype;
    const DType received = model_.graphs.value(to.value).type.dtype;
    if (from.size_bytes == to.size_bytes && sent == received) return;
    Report(send, StrCat("it sends ", from.size_bytes, " bytes of ", DTypeName(sent), ", but ",
                        names_.SiteName(sites_[recv.site]), " ",
                        names_.InstanceName(sites_[recv.site], index_, recv.instance), " expects ",
                        to.size_bytes, " bytes of ", DTypeName(received)));
  }

  const Slice& SliceOf(const Arrival& a, SliceId id) const {
    return model_.program(sites_[a.site].program).slices[id.index];
  }

  void Report(const Arrival& a, std::string_view what) {
    const PlanSite& site = sites_[a.site];
    const IssuedInstance& i = index_.programs[site.program].instances[a.instance];
    const ScheduleItem& item = ItemOf(model_.program(site.program), index_.section, i);
    const ErrorPlace place{static_cast<int32_t>(index_.section), a.instance, a.site};
    errors_.AddOnce(PlanRule::kComm, absl::HashOf(site.program, item.segment.index, i.index, 'c'),
                    place, 0, [&] {
                      return StrCat("comm in ", names_.SiteName(site), " ",
                                    SectionName(index_.section), ": ",
                                    names_.InstanceName(site, index_, a.instance), ": ", what);
                    });
  }

  const PlanModel& model_;
  const MeshClasses& classes_;
  const PlanNames names_;
  std::span<const PlanSite> sites_;
  const SectionIndex& index_;
  Communication& communication_;
  ErrorList& errors_;
  std::map<ChannelKey, Channel> channels_;
  std::map<GroupKey, std::vector<Arrival>> groups_;
};

}  // namespace

std::vector<PlanSite> SitesOf(const PlanModel& model, const MeshClasses& classes) {
  std::vector<PlanSite> sites;
  for (size_t p = 0; p < model.plan->programs.size(); ++p) {
    for (size_t c = 0; c < classes.coordinates.size(); ++c) {
      sites.push_back({static_cast<int32_t>(p), static_cast<int32_t>(c)});
    }
  }
  return sites;
}

bool PairCommunication(const PlanModel& model, const MeshClasses& classes,
                       std::span<const PlanSite> sites, const SectionIndex& index,
                       Communication& communication, ErrorList& errors) {
  return Pairer(model, classes, sites, index, communication, errors).Run();
}

void CheckMailboxes(const PlanModel& model, ErrorList& errors) {
  struct Use {
    int64_t size_bytes;
    DType dtype;
    std::string place;
  };
  std::map<std::string, Use> uses;
  const auto check = [&](int32_t p, int32_t s, int32_t i, const std::string& name, SliceId id) {
    const Program& program = model.program(p);
    const Slice& slice = program.slices[id.index];
    Use use{slice.size_bytes, model.graphs.value(slice.value).type.dtype,
            InstructionPlace(program, s, i)};
    const auto [it, is_new] = uses.try_emplace(name, use);
    const Use& first = it->second;
    if (is_new || (first.size_bytes == use.size_bytes && first.dtype == use.dtype)) return;
    errors.Add(PlanRule::kComm,
               StrCat("comm in ", use.place, ": mailbox '", name, "' carries ", use.size_bytes,
                      " bytes of ", DTypeName(use.dtype), " here and ", first.size_bytes,
                      " bytes of ", DTypeName(first.dtype), " in ", first.place));
  };
  for (size_t p = 0; p < model.plan->programs.size(); ++p) {
    const std::vector<Segment>& segments = model.plan->programs[p].segments;
    for (size_t s = 0; s < segments.size(); ++s) {
      for (size_t i = 0; i < segments[s].instructions.size(); ++i) {
        const InstructionBody& body = segments[s].instructions[i].body;
        if (const Publish* publish = std::get_if<Publish>(&body)) {
          check(p, s, i, publish->mailbox, publish->from);
        } else if (const TakeLatest* take = std::get_if<TakeLatest>(&body)) {
          check(p, s, i, take->mailbox, take->to);
        }
      }
    }
  }
}

}  // namespace millrace
