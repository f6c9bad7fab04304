// The ports, groups and mailboxes of a plan: collected while its schedules are unrolled, opened
// when all of them are known.
#ifndef MILLRACE_RUNTIME_CHANNELS_H_
#define MILLRACE_RUNTIME_CHANNELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

// Each Add returns where the opened thing will be; the place does not move. What is used by two
// lanes (streams with threads of their own) is refused with a UsageError: its order would be
// anyone's guess.
class Channels {
 public:
  absl::StatusOr<std::unique_ptr<SendPort>*> AddSend(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel, const Transfer& transfer,
                                                     int lane);
  absl::StatusOr<std::unique_ptr<RecvPort>*> AddRecv(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel, const Transfer& transfer,
                                                     int lane);
  absl::StatusOr<std::unique_ptr<Group>*> AddGroup(const Endpoint& self,
                                                   std::vector<Endpoint> members, int32_t id,
                                                   int lane);
  // Mailboxes of one name have one size.
  absl::StatusOr<std::unique_ptr<Mailbox>*> AddMailbox(const Endpoint& self,
                                                       const std::string& name, int64_t size_bytes);

  bool empty() const;
  absl::Status Open(Communicator& communicator);

 private:
  struct PortKey {
    Endpoint self, peer;
    Channel channel;
    auto operator<=>(const PortKey&) const = default;
  };
  template <typename Port>
  struct PortEntry {
    int lane = -1;
    std::vector<Transfer> transfers;
    std::unique_ptr<Port> port;
  };
  struct GroupEntry {
    int lane = -1;
    std::vector<Endpoint> members;
    std::unique_ptr<Group> group;
  };
  struct MailboxEntry {
    int64_t size_bytes = 0;
    std::unique_ptr<Mailbox> mailbox;
  };

  std::map<PortKey, PortEntry<SendPort>> sends_;
  std::map<PortKey, PortEntry<RecvPort>> recvs_;
  std::map<std::pair<Endpoint, int32_t>, GroupEntry> groups_;
  std::map<std::pair<Endpoint, std::string>, MailboxEntry> mailboxes_;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CHANNELS_H_
