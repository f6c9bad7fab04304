// The backend of the adversary: a device whose streams do at once what they are told, events that
// are numbers, and a communicator whose ports and groups say who is on the other side, so that the
// adversary can tell what may go on.
#ifndef MILLRACE_TESTS_ADVERSARY_VIRTUAL_DEVICE_H_
#define MILLRACE_TESTS_ADVERSARY_VIRTUAL_DEVICE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/device.h"

namespace millrace {

class VirtualEvent : public Event {
 public:
  uint64_t generation = 0;  // of the last Record
};

// All memory is host memory with red zones around each buffer, NaNs at first.
class VirtualDevice : public Device {
 public:
  VirtualDevice(std::string name, std::string kind)
      : name_(std::move(name)), kind_(std::move(kind)) {}

  std::string_view name() const override { return name_; }
  std::string_view kind() const override { return kind_; }
  bool asynchronous() const override { return false; }
  bool host_accessible() const override { return true; }
  absl::StatusOr<Buffer> Allocate(MemorySpace space, int64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(const PlanStream& stream,
                                                       Cancellation& cancellation) override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override;
  absl::StatusOr<Buffer> AllocateFlags(int64_t count) override;
  absl::Status Write(std::byte* device, const std::byte* host, int64_t size_bytes) override;
  absl::Status Read(std::byte* host, const std::byte* device, int64_t size_bytes) override;

 private:
  const std::string name_, kind_;
};

// --- Meetings -----------------------------------------------------------------------------------

struct VirtualRecvPort;

// The adversary moves the bytes: it calls no Send, Recv or Run.
struct VirtualSendPort : SendPort {
  absl::Status Send(Stream&) override;
  std::vector<Transfer> transfers;
  VirtualRecvPort* peer = nullptr;  // null: nobody receives
  int64_t next = 0;                 // transfer
};
struct VirtualRecvPort : RecvPort {
  absl::Status Recv(Stream&) override;
  std::vector<Transfer> transfers;
  VirtualSendPort* peer = nullptr;
  int64_t next = 0;
  bool arrived = false;  // the bytes of transfer `next` are there
};

struct VirtualGroupState;
struct VirtualGroup : Group {
  absl::Status Run(Stream&, const CollectiveSpec&, const std::byte*, std::byte*) override;
  VirtualGroupState* state = nullptr;
  int rank = 0;
  bool done = false;  // the collective it stands at has happened
};
struct VirtualGroupState {
  std::vector<VirtualGroup*> members;  // by rank; null: not opened
};

class VirtualCommunicator : public Communicator {
 public:
  int ProcessOf(const Endpoint&) const override { return 0; }
  absl::Status Register(const Endpoint&, Device&, Cancellation&) override;
  absl::StatusOr<std::unique_ptr<SendPort>> OpenSend(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel,
                                                     std::span<const Transfer> transfers) override;
  absl::StatusOr<std::unique_ptr<RecvPort>> OpenRecv(const Endpoint& self, const Endpoint& peer,
                                                     Channel channel,
                                                     std::span<const Transfer> transfers) override;
  absl::StatusOr<std::unique_ptr<Group>> OpenGroup(const Endpoint& self,
                                                   std::span<const Endpoint> members,
                                                   int32_t id) override;
  absl::StatusOr<std::unique_ptr<Mailbox>> OpenMailbox(const Endpoint& self,
                                                       const std::string& name,
                                                       int64_t size_bytes) override;

 private:
  using ChannelKey = std::tuple<Endpoint, Endpoint, Channel>;  // sender, receiver
  std::map<ChannelKey, VirtualSendPort*> sends_;
  std::map<ChannelKey, VirtualRecvPort*> recvs_;
  std::map<std::pair<std::vector<Endpoint>, int32_t>, VirtualGroupState> groups_;
  std::map<std::string, std::vector<std::byte>> mailboxes_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_ADVERSARY_VIRTUAL_DEVICE_H_
