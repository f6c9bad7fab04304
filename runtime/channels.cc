#include "runtime/channels.h"

#include "graph/strings.h"

namespace millrace {
namespace {

// The lane that uses a thing: the first one that asks, from then on.
absl::Status Claim(int& owner, int lane, std::string_view what, int32_t id) {
  if (owner < 0) owner = lane;
  if (owner == lane) return absl::OkStatus();
  return UsageError(StrCat(what, " ", id,
                           " is used by two streams that run side by side; use one stream for it, "
                           "or one ",
                           what, " a stream"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SendPort>*> Channels::AddSend(const Endpoint& self,
                                                             const Endpoint& peer, Channel channel,
                                                             const Transfer& transfer, int lane) {
  PortEntry<SendPort>& entry = sends_[{self, peer, channel}];
  MILLRACE_RETURN_IF_ERROR(Claim(entry.lane, lane, "channel", channel.id));
  entry.transfers.push_back(transfer);
  return &entry.port;
}

absl::StatusOr<std::unique_ptr<RecvPort>*> Channels::AddRecv(const Endpoint& self,
                                                             const Endpoint& peer, Channel channel,
                                                             const Transfer& transfer, int lane) {
  PortEntry<RecvPort>& entry = recvs_[{self, peer, channel}];
  MILLRACE_RETURN_IF_ERROR(Claim(entry.lane, lane, "channel", channel.id));
  entry.transfers.push_back(transfer);
  return &entry.port;
}

absl::StatusOr<std::unique_ptr<Group>*> Channels::AddGroup(const Endpoint& self,
                                                           std::vector<Endpoint> members,
                                                           int32_t id, int lane) {
  GroupEntry& entry = groups_[{self, id}];
  MILLRACE_RETURN_IF_ERROR(Claim(entry.lane, lane, "collective", id));
  entry.members = std::move(members);
  return &entry.group;
}

absl::StatusOr<std::unique_ptr<Mailbox>*> Channels::AddMailbox(const Endpoint& self,
                                                               const std::string& name,
                                                               int64_t size_bytes) {
  const auto [it, added] = mailboxes_.try_emplace({self, name});
  MailboxEntry& entry = it->second;
  if (added) entry.size_bytes = size_bytes;
  if (entry.size_bytes != size_bytes) {
    return UsageError(StrCat("mailbox '", name, "' is used with ", entry.size_bytes, " and with ",
                             size_bytes, " bytes"));
  }
  return &entry.mailbox;
}

bool Channels::empty() const {
  return sends_.empty() && recvs_.empty() && groups_.empty() && mailboxes_.empty();
}

absl::Status Channels::Open(Communicator& communicator) {
  for (auto& [key, entry] : sends_) {
    MILLRACE_ASSIGN_OR_RETURN(
        entry.port, communicator.OpenSend(key.self, key.peer, key.channel, entry.transfers));
  }
  for (auto& [key, entry] : recvs_) {
    MILLRACE_ASSIGN_OR_RETURN(
        entry.port, communicator.OpenRecv(key.self, key.peer, key.channel, entry.transfers));
  }
  for (auto& [key, entry] : groups_) {
    MILLRACE_ASSIGN_OR_RETURN(entry.group,
                              communicator.OpenGroup(key.first, entry.members, key.second));
  }
  for (auto& [key, entry] : mailboxes_) {
    MILLRACE_ASSIGN_OR_RETURN(entry.mailbox,
                              communicator.OpenMailbox(key.first, key.second, entry.size_bytes));
  }
  return absl::OkStatus();
}

}  // namespace millrace
