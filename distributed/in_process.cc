#include "distributed/in_process.h"

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "distributed/endpoint_text.h"
#include "distributed/in_process_ports.h"
#include "distributed/mailbox_store.h"
#include "distributed/shared_group.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class StoreMailbox : public Mailbox {
 public:
  StoreMailbox(std::shared_ptr<MailboxStore> store, const Cancellation& cancellation)
      : store_(std::move(store)), cancellation_(cancellation) {}

  // On a synchronous device a stream's work is done by the thread that calls.
  absl::Status Publish(Stream&, const std::byte* from, int64_t size_bytes) override {
    MILLRACE_CHECK(size_bytes == store_->size_bytes());
    store_->Publish(from);
    return absl::OkStatus();
  }
  absl::Status TakeLatest(Stream&, std::byte* to, int64_t size_bytes) override {
    MILLRACE_CHECK(size_bytes == store_->size_bytes());
    return store_->TakeLatest(to, cancellation_);
  }

 private:
  const std::shared_ptr<MailboxStore> store_;
  const Cancellation& cancellation_;
};

// Everything is opened under one lock, before the plan runs.
class InProcessCommunicator : public Communicator {
 public:
  int ProcessOf(const Endpoint& endpoint) const override {
    return members_.contains(endpoint) ? 0 : -1;
  }

  absl::Status Register(const Endpoint& self, Device& device, Cancellation& cancellation) override {
    const std::lock_guard lock(mutex_);
    const bool added = members_.try_emplace(self, Member{&device, &cancellation}).second;
    if (added) return absl::OkStatus();
    return UsageError(StrCat(ToText(self),
                             " is registered already; a communicator serves one "
                             "session"));
  }

  absl::StatusOr<std::unique_ptr<SendPort>> OpenSend(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel,
                                                     std::span<const Transfer> transfers) override {
    const std::lock_guard lock(mutex_);
    MILLRACE_ASSIGN_OR_RETURN(auto shared, ChannelBetween(self, peer, channel));
    MILLRACE_RETURN_IF_ERROR(OpenEnd(shared->sender_open, self, channel));
    shared->sends.assign(transfers.begin(), transfers.end());
    MILLRACE_RETURN_IF_ERROR(CheckEnds(*shared, self, peer, channel));
    return MakeSendPort(std::move(shared));
  }

  absl::StatusOr<std::unique_ptr<RecvPort>> OpenRecv(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel,
                                                     std::span<const Transfer> transfers) override {
    const std::lock_guard lock(mutex_);
    MILLRACE_ASSIGN_OR_RETURN(auto shared, ChannelBetween(peer, self, channel));
    MILLRACE_RETURN_IF_ERROR(OpenEnd(shared->receiver_open, self, channel));
    shared->recvs.assign(transfers.begin(), transfers.end());
    MILLRACE_RETURN_IF_ERROR(CheckEnds(*shared, peer, self, channel));
    return MakeRecvPort(std::move(shared));
  }

  absl::StatusOr<std::unique_ptr<Group>> OpenGroup(const Endpoint& self,
                                                   std::span<const Endpoint> members,
                                                   int32_t id) override {
    const std::lock_guard lock(mutex_);
    int rank = -1;
    for (int i = 0; i < static_cast<int>(members.size()); ++i) {
      if (members[i] == self) rank = i;
      MILLRACE_RETURN_IF_ERROR(RequireHostMemory(members[i], "collectives"));
    }
    if (rank < 0) return InternalError(StrCat(ToText(self), " is not in its own group"));
    std::shared_ptr<SharedGroup>& group =
        groups_[{std::vector<Endpoint>(members.begin(), members.end()), id}];
    if (group == nullptr) group = CreateSharedGroup(static_cast<int>(members.size()));
    return JoinGroup(group, rank);
  }

  absl::StatusOr<std::unique_ptr<Mailbox>> OpenMailbox(const Endpoint& self,
                                                       const std::string& name,
                                                       int64_t size_bytes) override {
    const std::lock_guard lock(mutex_);
    MILLRACE_RETURN_IF_ERROR(RequireHostMemory(self, "mailboxes"));
    std::shared_ptr<MailboxStore>& store = mailboxes_[name];
    if (store == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(store, MailboxStore::Create(size_bytes));
    }
    if (store->size_bytes() != size_bytes) {
      return DistributedError(StrCat(ToText(self), " opens mailbox '", name, "' with ", size_bytes,
                                     " bytes, another endpoint with ", store->size_bytes()));
    }
    return std::make_unique<StoreMailbox>(store, *members_.at(self).cancellation);
  }

 private:
  struct Member {
    Device* device;
    Cancellation* cancellation;
  };

  absl::StatusOr<Member> Find(const Endpoint& endpoint) const {
    const auto member = members_.find(endpoint);
    if (member != members_.end()) return member->second;
    return UsageError(StrCat(ToText(endpoint), " does not run in this process"));
  }

  absl::Status RequireHostMemory(const Endpoint& endpoint, std::string_view what) const {
    MILLRACE_ASSIGN_OR_RETURN(const Member member, Find(endpoint));
    if (!member.device->asynchronous() && member.device->host_accessible()) {
      return absl::OkStatus();
    }
    return DeviceError(StrCat("the in-process communicator has no ", what, " for ",
                              member.device->name(), " (", member.device->kind(),
                              " memory is out of the host's reach)"));
  }

  absl::StatusOr<std::shared_ptr<InProcessChannel>> ChannelBetween(const Endpoint& sender,
                                                                   const Endpoint& receiver,
                                                                   Channel channel) {
    MILLRACE_ASSIGN_OR_RETURN(const Member from, Find(sender));
    MILLRACE_ASSIGN_OR_RETURN(const Member to, Find(receiver));
    std::shared_ptr<InProcessChannel>& shared = channels_[{sender, receiver, channel}];
    if (shared == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(shared, CreateInProcessChannel(*from.device, *to.device));
    }
    return shared;
  }

  static absl::Status OpenEnd(bool& open, const Endpoint& self, Channel channel) {
    if (open) {
      return InternalError(
          StrCat(ToText(self), " opens its end of channel ", channel.id, " twice"));
    }
    open = true;
    return absl::OkStatus();
  }

  // Once both ends are open.
  static absl::Status CheckEnds(const InProcessChannel& shared, const Endpoint& sender,
                                const Endpoint& receiver, Channel channel) {
    if (!shared.sender_open || !shared.receiver_open) return absl::OkStatus();
    return CheckTransfers(sender, shared.sends, receiver, shared.recvs, channel);
  }

  std::mutex mutex_;
  std::map<Endpoint, Member> members_;
  std::map<std::tuple<Endpoint, Endpoint, Channel>, std::shared_ptr<InProcessChannel>> channels_;
  std::map<std::pair<std::vector<Endpoint>, int32_t>, std::shared_ptr<SharedGroup>> groups_;
  std::map<std::string, std::shared_ptr<MailboxStore>> mailboxes_;
};

}  // namespace

std::unique_ptr<Communicator> CreateInProcessCommunicator() {
  return std::make_unique<InProcessCommunicator>();
}

}  // namespace millrace
