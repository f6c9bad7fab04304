// Everything is opened in two steps. Opening an end here only notes it down, since its peer may be
// in another process that has come less far. When all is noted, Connect lets the processes tell
// each other, in two gatherings, who has which endpoints and mailboxes, and then where their
// segments, flags and transfers lie; each maps the others' segments and fills in what it noted.
//
// Flags lie in a control segment of the process that writes them.
#include "distributed/process_communicator.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "distributed/endpoint_text.h"
#include "distributed/in_process.h"
#include "distributed/mailbox_store.h"
#include "distributed/port_pair.h"
#include "distributed/process_tables.h"
#include "distributed/shared_group.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// For which rank of the job a port or group waits; -1: for none.
using WaitSlot = std::atomic<int>;

class RemotePort : public SendPort, public RecvPort {
 public:
  struct Link {
    PortEnd* self = nullptr;
    PortEnd* peer = nullptr;
    std::vector<PortMove> moves;  // of one run
    int peer_rank = -1;
  };
  RemotePort(std::shared_ptr<Link> link, bool sends, WaitSlot& waits)
      : link_(std::move(link)), sends_(sends), waits_(waits) {}

  absl::Status Send(Stream& stream) override { return Meet(stream); }
  absl::Status Recv(Stream& stream) override { return Meet(stream); }

 private:
  absl::Status Meet(Stream& stream) {
    const PortMove& move = link_->moves[next_];
    next_ = next_ + 1 == link_->moves.size() ? 0 : next_ + 1;
    waits_.store(link_->peer_rank, std::memory_order_relaxed);
    const absl::Status status =
        MeetAndMove(stream, *link_->self, *link_->peer, ++count_, sends_, move);
    waits_.store(-1, std::memory_order_relaxed);
    return status;
  }

  const std::shared_ptr<Link> link_;  // filled in when connected
  const bool sends_;
  WaitSlot& waits_;
  size_t next_ = 0;
  uint32_t count_ = 0;
};

class RemoteGroup : public Group {
 public:
  using Link = std::unique_ptr<Group>;
  explicit RemoteGroup(std::shared_ptr<Link> link) : link_(std::move(link)) {}
  absl::Status Run(Stream& stream, const CollectiveSpec& spec, const std::byte* input,
                   std::byte* output) override {
    return (*link_)->Run(stream, spec, input, output);
  }

 private:
  const std::shared_ptr<Link> link_;
};

class RemoteMailbox : public Mailbox {
 public:
  using Link = std::shared_ptr<MailboxStore>;
  RemoteMailbox(std::shared_ptr<Link> link, const Cancellation& cancellation)
      : link_(std::move(link)), cancellation_(cancellation) {}
  absl::Status Publish(Stream&, const std::byte* from, int64_t) override {
    (*link_)->Publish(from);
    return absl::OkStatus();
  }
  absl::Status TakeLatest(Stream&, std::byte* to, int64_t) override {
    return (*link_)->TakeLatest(to, cancellation_);
  }

 private:
  const std::shared_ptr<Link> link_;
  const Cancellation& cancellation_;
};

// What was opened here and reaches into other processes.
struct NotedPort {
  ChannelEnd end;
  std::shared_ptr<RemotePort::Link> link;
};
struct NotedGroup {
  GroupSeat seat;
  std::shared_ptr<RemoteGroup::Link> link;
  WaitSlot* waits = nullptr;
};
struct NotedMailbox {
  std::shared_ptr<RemoteMailbox::Link> link = std::make_shared<RemoteMailbox::Link>();
  int64_t size_bytes = 0;
};

class MappingCommunicator : public ProcessCommunicator, public JobActivity {
 public:
  explicit MappingCommunicator(Job& job) : job_(job), local_(CreateInProcessCommunicator()) {}

  SharedMemory& memory() override { return memory_; }
  int num_processes() const override { return job_.size(); }
  int process() const override { return job_.rank(); }
  int ProcessOf(const Endpoint& endpoint) const override {
    const auto found = owners_.find(endpoint);
    return found == owners_.end() ? -1 : found->second;
  }

  absl::Status Register(const Endpoint& self, Device& device, Cancellation& cancellation) override {
    MILLRACE_RETURN_IF_ERROR(local_->Register(self, device, cancellation));
    endpoints_[self] = {&device, &cancellation};
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<SendPort>> OpenSend(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel,
                                                     std::span<const Transfer> transfers) override {
    if (endpoints_.contains(peer)) return local_->OpenSend(self, peer, channel, transfers);
    return NotePort(self, peer, channel, transfers, /*sends=*/true);
  }

  absl::StatusOr<std::unique_ptr<RecvPort>> OpenRecv(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel,
                                                     std::span<const Transfer> transfers) override {
    if (endpoints_.contains(peer)) return local_->OpenRecv(self, peer, channel, transfers);
    return NotePort(self, peer, channel, transfers, /*sends=*/false);
  }

  absl::StatusOr<std::unique_ptr<Group>> OpenGroup(const Endpoint& self,
                                                   std::span<const Endpoint> members,
                                                   int32_t id) override {
    const bool all_here = std::ranges::all_of(
        members, [&](const Endpoint& member) { return endpoints_.contains(member); });
    if (all_here) return local_->OpenGroup(self, members, id);
    MILLRACE_RETURN_IF_ERROR(RequireHostMemory(self));
    NotedGroup noted;
    noted.seat = {.members = {members.begin(), members.end()}, .id = id, .self = self};
    noted.link = std::make_shared<RemoteGroup::Link>();
    noted.waits = &waits_.emplace_back(-1);
    groups_.push_back(noted);
    return std::make_unique<RemoteGroup>(noted.link);
  }

  absl::StatusOr<std::unique_ptr<Mailbox>> OpenMailbox(const Endpoint& self,
                                                       const std::string& name,
                                                       int64_t size_bytes) override {
    MILLRACE_RETURN_IF_ERROR(RequireHostMemory(self));
    const auto [found, added] = mailboxes_.try_emplace(name);
    if (added) found->second.size_bytes = size_bytes;
    MILLRACE_RETURN_IF_ERROR(CheckMailbox(name, found->second.size_bytes, size_bytes));
    return std::make_unique<RemoteMailbox>(found->second.link, *endpoints_.at(self).cancellation);
  }

  absl::Status Connect() override;

  void Observe(RunObserver* observer) override {
    if (observer_ != nullptr) job_.Unwatch(*this);
    observer_ = observer;
    if (observer_ != nullptr) job_.Watch(*this);
  }

  absl::StatusOr<std::vector<std::string>> Gather(std::string bytes) override {
    return job_.Gather(std::move(bytes));
  }

  Pulse Take() override {
    Pulse pulse = {.progress = observer_->Progress(), .where = observer_->Where()};
    for (const WaitSlot& slot : waits_) {
      if (const int rank = slot.load(std::memory_order_relaxed); rank >= 0) pulse.waits_for = rank;
    }
    return pulse;
  }
  void Cancel() override { observer_->Cancel(); }

 private:
  struct Local {
    Device* device;
    Cancellation* cancellation;
  };

  absl::Status RequireHostMemory(const Endpoint& self) const {
    const Device& device = *endpoints_.at(self).device;
    if (!device.asynchronous() && device.host_accessible()) return absl::OkStatus();
    return DeviceError(StrCat("nothing is shared between processes for ", device.name(), ": ",
                              device.kind(), " memory is out of the host's reach"));
  }

  static absl::Status CheckMailbox(const std::string& name, int64_t size_bytes,
                                   int64_t other_bytes) {
    if (size_bytes == other_bytes) return absl::OkStatus();
    return DistributedError(StrCat("mailbox '", name, "' is opened with ", size_bytes, " and with ",
                                   other_bytes, " bytes"));
  }

  absl::StatusOr<std::unique_ptr<RemotePort>> NotePort(const Endpoint& self, const Endpoint& peer,
                                                       Channel channel,
                                                       std::span<const Transfer> transfers,
                                                       bool sends) {
    MILLRACE_RETURN_IF_ERROR(RequireHostMemory(self));
    NotedPort noted;
    noted.end = {.self = self,
                 .peer = peer,
                 .channel = channel,
                 .sends = sends,
                 .transfers = {transfers.begin(), transfers.end()}};
    noted.link = std::make_shared<RemotePort::Link>();
    ports_.push_back(noted);
    return std::make_unique<RemotePort>(noted.link, sends, waits_.emplace_back(-1));
  }

  absl::Status GatherOwners();
  absl::Status MakeControls();
  absl::Status MapPeers();
  absl::Status LinkPort(NotedPort& port);
  absl::Status LinkGroup(NotedGroup& group);
  absl::Status LinkMailbox(const std::string& name, NotedMailbox& mailbox);
  // Where what `rank` has at `address` lies here.
  template <typename T>
  absl::StatusOr<T*> Reach(int rank, uint64_t address, int64_t size_bytes) const;

  Job& job_;
  const std::unique_ptr<Communicator> local_;
  SharedMemory memory_;
  std::map<Endpoint, Local> endpoints_;  // of this process
  std::vector<NotedPort> ports_;
  std::vector<NotedGroup> groups_;
  std::map<std::string, NotedMailbox> mailboxes_;
  std::deque<WaitSlot> waits_;
  RunObserver* observer_ = nullptr;

  // Since Connect.
  std::map<Endpoint, int> owners_;
  std::map<std::string, int> mailbox_homes_;  // the rank where it lies
  Buffer control_;
  std::vector<ProcessTable> tables_;                     // by rank
  std::vector<std::unique_ptr<MappedMemory>> mappings_;  // by rank; null: this one
};

absl::Status MappingCommunicator::Connect() {
  MILLRACE_RETURN_IF_ERROR(GatherOwners());
  MILLRACE_RETURN_IF_ERROR(MakeControls());
  MILLRACE_RETURN_IF_ERROR(MapPeers());
  // Who finds a fault from here on may leave: its memory has been mapped by all.
  MILLRACE_RETURN_IF_ERROR(job_.Gather("").status());
  for (NotedPort& port : ports_) MILLRACE_RETURN_IF_ERROR(LinkPort(port));
  for (NotedGroup& group : groups_) MILLRACE_RETURN_IF_ERROR(LinkGroup(group));
  for (auto& [name, mailbox] : mailboxes_) {
    MILLRACE_RETURN_IF_ERROR(LinkMailbox(name, mailbox));
  }
  // Nobody reaches into memory of a process that has failed by now.
  return job_.Gather("").status();
}

absl::Status MappingCommunicator::GatherOwners() {
  ProcessRoll mine;
  for (const auto& [endpoint, local] : endpoints_) mine.endpoints.push_back(endpoint);
  for (const auto& [name, mailbox] : mailboxes_) mine.mailboxes[name] = mailbox.size_bytes;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all, job_.Gather(Encode(mine)));
  for (int rank = 0; rank < job_.size(); ++rank) {
    MILLRACE_ASSIGN_OR_RETURN(const ProcessRoll roll, DecodeRoll(all[rank]));
    for (const Endpoint& endpoint : roll.endpoints) {
      const auto [found, added] = owners_.try_emplace(endpoint, rank);
      if (added) continue;
      return DistributedError(
          StrCat(ToText(endpoint), " is run by rank ", found->second, " and by rank ", rank));
    }
    for (const auto& [name, size_bytes] : roll.mailboxes) {
      mailbox_homes_.try_emplace(name, rank);
      const auto own = mailboxes_.find(name);
      if (own == mailboxes_.end()) continue;
      MILLRACE_RETURN_IF_ERROR(CheckMailbox(name, own->second.size_bytes, size_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status MappingCommunicator::MakeControls() {
  constexpr auto kEndBytes = static_cast<int64_t>(sizeof(PortEnd));
  constexpr auto kSeatBytes = static_cast<int64_t>(sizeof(GroupMember));
  MILLRACE_ASSIGN_OR_RETURN(
      control_, memory_.Allocate(MemorySpace::kHost, std::ssize(ports_) * kEndBytes +
                                                         std::ssize(groups_) * kSeatBytes));
  std::byte* next = control_.data();
  for (NotedPort& port : ports_) {
    auto* end = new (std::exchange(next, next + kEndBytes)) PortEnd();
    end->ready.between_processes = end->done.between_processes = true;
    port.link->self = end;
    port.end.flags = reinterpret_cast<uint64_t>(end);
  }
  for (NotedGroup& group : groups_) {
    auto* member = new (std::exchange(next, next + kSeatBytes)) GroupMember();
    member->rounds.between_processes = true;
    group.seat.member = reinterpret_cast<uint64_t>(member);
  }
  for (auto& [name, mailbox] : mailboxes_) {
    if (mailbox_homes_.at(name) != job_.rank()) continue;
    MILLRACE_ASSIGN_OR_RETURN(*mailbox.link,
                              MailboxStore::Create(mailbox.size_bytes, [&](int64_t size_bytes) {
                                return memory_.Allocate(MemorySpace::kHost, size_bytes);
                              }));
  }
  return absl::OkStatus();
}

absl::Status MappingCommunicator::MapPeers() {
  ProcessTable mine;
  mine.machine = ThisMachine();
  mine.segments = memory_.Names();
  for (const NotedPort& port : ports_) mine.ends.push_back(port.end);
  for (const NotedGroup& group : groups_) mine.seats.push_back(group.seat);
  for (const auto& [name, mailbox] : mailboxes_) {
    if (*mailbox.link == nullptr) continue;
    mine.mailboxes[name] = reinterpret_cast<uint64_t>((*mailbox.link)->memory());
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all, job_.Gather(Encode(mine)));
  mappings_.resize(all.size());
  for (int rank = 0; rank < job_.size(); ++rank) {
    MILLRACE_ASSIGN_OR_RETURN(ProcessTable table, DecodeTable(all[rank]));
    tables_.push_back(std::move(table));
    if (rank == job_.rank()) continue;
    if (tables_[rank].machine != mine.machine) {
      return DistributedError(StrCat("rank ", rank, " runs on another machine than rank ",
                                     job_.rank(), "; ranks share memory, so all of them have to ",
                                     "run on one machine"));
    }
    MILLRACE_ASSIGN_OR_RETURN(mappings_[rank], MappedMemory::Map(tables_[rank].segments));
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<T*> MappingCommunicator::Reach(int rank, uint64_t address,
                                              int64_t size_bytes) const {
  auto* there = reinterpret_cast<std::byte*>(address);
  if (rank == job_.rank()) return reinterpret_cast<T*>(there);
  std::byte* here = mappings_[rank]->Find(there, size_bytes);
  if (here != nullptr) return reinterpret_cast<T*>(here);
  return DistributedError(StrCat("rank ", rank, " names memory that it does not share"));
}

absl::Status MappingCommunicator::LinkPort(NotedPort& port) {
  const ChannelEnd& end = port.end;
  const int rank = ProcessOf(end.peer);
  if (rank < 0) return DistributedError(StrCat(ToText(end.peer), " is run by no rank"));
  for (const ChannelEnd& other : tables_[rank].ends) {
    if (other.self != end.peer || other.peer != end.self || other.channel != end.channel ||
        other.sends == end.sends) {
      continue;
    }
    const ChannelEnd& sender = end.sends ? end : other;
    const ChannelEnd& receiver = end.sends ? other : end;
    MILLRACE_RETURN_IF_ERROR(CheckTransfers(sender.self, sender.transfers, receiver.self,
                                            receiver.transfers, end.channel));
    port.link->peer_rank = rank;
    MILLRACE_ASSIGN_OR_RETURN(port.link->peer, Reach<PortEnd>(rank, other.flags, sizeof(PortEnd)));
    for (size_t i = 0; i < end.transfers.size(); ++i) {
      const int64_t size_bytes = end.transfers[i].size_bytes;
      MILLRACE_ASSIGN_OR_RETURN(
          std::byte* const theirs,
          Reach<std::byte>(rank, reinterpret_cast<uint64_t>(other.transfers[i].data), size_bytes));
      std::byte* const ours = end.transfers[i].data;
      port.link->moves.push_back({.to = end.sends ? theirs : ours,
                                  .from = end.sends ? ours : theirs,
                                  .size_bytes = size_bytes});
    }
    return absl::OkStatus();
  }
  return DistributedError(StrCat("rank ", rank, " does not open its end of channel ",
                                 end.channel.id, " between ", ToText(end.self), " and ",
                                 ToText(end.peer)));
}

absl::Status MappingCommunicator::LinkGroup(NotedGroup& group) {
  std::vector<MemberView> views;
  std::vector<int> ranks;
  int own = 0;
  for (const Endpoint& endpoint : group.seat.members) {
    const int rank = ProcessOf(endpoint);
    if (rank < 0) return DistributedError(StrCat(ToText(endpoint), " is run by no rank"));
    const auto seat = std::ranges::find_if(tables_[rank].seats, [&](const GroupSeat& each) {
      return each.self == endpoint && each.id == group.seat.id &&
             each.members == group.seat.members;
    });
    if (seat == tables_[rank].seats.end()) {
      return DistributedError(StrCat("rank ", rank, " does not open collective ", group.seat.id,
                                     " for ", ToText(endpoint)));
    }
    MemberView view;
    MILLRACE_ASSIGN_OR_RETURN(view.member,
                              Reach<GroupMember>(rank, seat->member, sizeof(GroupMember)));
    if (rank != job_.rank()) {
      view.find = [mapping = mappings_[rank].get()](const std::byte* there, int64_t size_bytes) {
        return mapping->Find(there, size_bytes);
      };
    }
    if (endpoint == group.seat.self) own = static_cast<int>(views.size());
    views.push_back(std::move(view));
    ranks.push_back(rank);
  }
  const auto on_waiting = [ranks = std::move(ranks), slot = group.waits](int member) {
    slot->store(member < 0 ? -1 : ranks[member], std::memory_order_relaxed);
  };
  *group.link = JoinGroup(std::move(views), own, on_waiting);
  return absl::OkStatus();
}

absl::Status MappingCommunicator::LinkMailbox(const std::string& name, NotedMailbox& mailbox) {
  const int home = mailbox_homes_.at(name);
  if (home == job_.rank()) return absl::OkStatus();
  const auto found = tables_[home].mailboxes.find(name);
  if (found == tables_[home].mailboxes.end()) {
    return DistributedError(StrCat("rank ", home, " has no mailbox '", name, "'"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::byte* const memory,
                            Reach<std::byte>(home, found->second, mailbox.size_bytes));
  *mailbox.link = MailboxStore::Open(memory, mailbox.size_bytes);
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<ProcessCommunicator> CreateProcessCommunicator(Job& job) {
  return std::make_unique<MappingCommunicator>(job);
}

}  // namespace millrace
