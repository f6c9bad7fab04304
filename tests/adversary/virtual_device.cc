#include "tests/adversary/virtual_device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "graph/assert.h"
#include "graph/strings.h"
#include "runtime/strided_copy.h"
#include "tests/adversary/red_zone.h"

namespace millrace {
namespace {

class VirtualStream : public Stream {
 public:
  absl::Status Launch(Kernel& kernel, const KernelArgs& args) override { return kernel.Run(args); }
  absl::Status Copy(const CopyRegion& region) override {
    CopyOnHost(region);
    return absl::OkStatus();
  }
  absl::Status Record(Event&, uint64_t) override { return NotAsked(); }
  absl::Status Wait(Event&, uint64_t) override { return NotAsked(); }
  absl::Status Signal(Flag&, uint32_t) override { return NotAsked(); }
  absl::Status WaitFlag(Flag&, uint32_t) override { return NotAsked(); }
  absl::Status RunOnHost(HostFunction& function) override { return function(); }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  static absl::Status NotAsked() { return InternalError("the adversary does this itself"); }
};

bool IsRed(const std::byte* zone) {
  return std::all_of(zone, zone + kRedZone, [](std::byte b) { return b == kRed; });
}

// The last and the newest version are the same here: one thread.
class VirtualMailbox : public Mailbox {
 public:
  explicit VirtualMailbox(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  absl::Status Publish(Stream&, const std::byte* from, int64_t size_bytes) override {
    std::memcpy(bytes_.data(), from, static_cast<size_t>(size_bytes));
    return absl::OkStatus();
  }
  absl::Status TakeLatest(Stream&, std::byte* to, int64_t size_bytes) override {
    std::memcpy(to, bytes_.data(), static_cast<size_t>(size_bytes));
    return absl::OkStatus();
  }

 private:
  std::vector<std::byte>& bytes_;
};

}  // namespace

absl::StatusOr<Buffer> VirtualDevice::Allocate(MemorySpace space, int64_t size_bytes) {
  if (size_bytes < 0 || size_bytes > (int64_t{1} << 32)) {
    return OutOfMemoryError(StrCat(name_, ": ", size_bytes, " bytes asked for"));
  }
  const int64_t padded = (size_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  auto* const all = static_cast<std::byte*>(
      std::aligned_alloc(kBufferAlignment, static_cast<size_t>(padded + 2 * kRedZone)));
  MILLRACE_CHECK(all != nullptr);
  std::memset(all, static_cast<int>(kRed), static_cast<size_t>(padded + 2 * kRedZone));
  std::memset(all + kRedZone, static_cast<int>(kPoison), static_cast<size_t>(size_bytes));
  return Buffer(all + kRedZone, size_bytes, space, [padded](void* data, int64_t) {
    auto* const begin = static_cast<std::byte*>(data) - kRedZone;
    const bool intact = IsRed(begin) && IsRed(begin + kRedZone + padded);
    if (!intact) std::fprintf(stderr, "something wrote around a buffer\n");
    MILLRACE_CHECK(intact);
    std::free(begin);
  });
}

absl::StatusOr<std::unique_ptr<Stream>> VirtualDevice::CreateStream(const PlanStream&,
                                                                    Cancellation&) {
  return std::make_unique<VirtualStream>();
}

absl::StatusOr<std::unique_ptr<Event>> VirtualDevice::CreateEvent() {
  return std::make_unique<VirtualEvent>();
}

absl::StatusOr<Buffer> VirtualDevice::AllocateFlags(int64_t) {
  return InternalError("the adversary has no flags");
}

absl::Status VirtualDevice::Write(std::byte* device, const std::byte* host, int64_t size_bytes) {
  std::memcpy(device, host, static_cast<size_t>(size_bytes));
  return absl::OkStatus();
}

absl::Status VirtualDevice::Read(std::byte* host, const std::byte* device, int64_t size_bytes) {
  return Write(host, device, size_bytes);
}

// --- Meetings -----------------------------------------------------------------------------------

namespace {
absl::Status AdversaryMoves() { return InternalError("the adversary moves the bytes itself"); }
}  // namespace

absl::Status VirtualSendPort::Send(Stream&) { return AdversaryMoves(); }
absl::Status VirtualRecvPort::Recv(Stream&) { return AdversaryMoves(); }
absl::Status VirtualGroup::Run(Stream&, const CollectiveSpec&, const std::byte*, std::byte*) {
  return AdversaryMoves();
}

absl::Status VirtualCommunicator::Register(const Endpoint&, Device&, Cancellation&) {
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SendPort>> VirtualCommunicator::OpenSend(
    const Endpoint& self, const Endpoint& peer, Channel channel,
    std::span<const Transfer> transfers) {
  auto port = std::make_unique<VirtualSendPort>();
  port->transfers.assign(transfers.begin(), transfers.end());
  sends_[{self, peer, channel}] = port.get();
  if (const auto other = recvs_.find({self, peer, channel}); other != recvs_.end()) {
    port->peer = other->second;
    other->second->peer = port.get();
  }
  return port;
}

absl::StatusOr<std::unique_ptr<RecvPort>> VirtualCommunicator::OpenRecv(
    const Endpoint& self, const Endpoint& peer, Channel channel,
    std::span<const Transfer> transfers) {
  auto port = std::make_unique<VirtualRecvPort>();
  port->transfers.assign(transfers.begin(), transfers.end());
  recvs_[{peer, self, channel}] = port.get();
  if (const auto other = sends_.find({peer, self, channel}); other != sends_.end()) {
    port->peer = other->second;
    other->second->peer = port.get();
  }
  return port;
}

absl::StatusOr<std::unique_ptr<Group>> VirtualCommunicator::OpenGroup(
    const Endpoint& self, std::span<const Endpoint> members, int32_t id) {
  const std::vector<Endpoint> all(members.begin(), members.end());
  VirtualGroupState& state = groups_[{all, id}];
  state.members.resize(all.size());
  auto group = std::make_unique<VirtualGroup>();
  group->state = &state;
  group->rank = static_cast<int>(std::ranges::find(all, self) - all.begin());
  state.members[group->rank] = group.get();
  return group;
}

absl::StatusOr<std::unique_ptr<Mailbox>> VirtualCommunicator::OpenMailbox(const Endpoint&,
                                                                          const std::string& name,
                                                                          int64_t size_bytes) {
  std::vector<std::byte>& bytes = mailboxes_[name];
  bytes.resize(std::max(bytes.size(), static_cast<size_t>(size_bytes)));
  return std::make_unique<VirtualMailbox>(bytes);
}

}  // namespace millrace
