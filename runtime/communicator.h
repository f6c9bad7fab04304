// Communicator: moves bytes between devices of a run. The executor asks for channels and groups
// while it prepares, and uses them from the streams while it runs. Implementations: distributed/.
#ifndef MILLRACE_RUNTIME_COMMUNICATOR_H_
#define MILLRACE_RUNTIME_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/mesh.h"
#include "graph/op_traits.h"
#include "graph/status.h"
#include "graph/types.h"
#include "runtime/device.h"

namespace millrace {

// One end of a run: a program at a mesh coordinate, with the device it runs on.
struct Endpoint {
  int32_t program = 0;
  std::vector<int64_t> coordinates;
  auto operator<=>(const Endpoint&) const = default;
};

// One direction between two endpoints within one section of the plan.
struct Channel {
  Section section = Section::kStep;
  int32_t id = 0;  // as Send and Recv name it
  auto operator<=>(const Channel&) const = default;
};

// What one transfer moves, at one end. A plan's addresses are known before it runs, so both ends of
// a channel list the transfers of one run of the section, in order, when they open it; every run
// repeats them. No address travels while the plan runs, and no thread that issues for an
// asynchronous device ever has to wait for its peer.
struct Transfer {
  std::byte* data = nullptr;
  int64_t size_bytes = 0;
  MemorySpace space = MemorySpace::kDevice;
};

// The n-th Send meets the n-th Recv of its channel. Both are issued to streams and end (in stream
// order) when the bytes lie in the receiver's slice. A port is used by one thread.
class SendPort {
 public:
  virtual ~SendPort() = default;
  virtual absl::Status Send(Stream& stream) = 0;
};
class RecvPort {
 public:
  virtual ~RecvPort() = default;
  virtual absl::Status Recv(Stream& stream) = 0;
};

struct CollectiveSpec {
  CommKind kind = CommKind::kNone;
  Reduction reduction = Reduction::kSum;
  DType dtype = DType::kF32;
  int64_t count = 0;  // elements of the node's input on each device
  int root = 0;       // kBroadcast: rank within the group
};

// A group of endpoints that run collectives together, in the same order.
class Group {
 public:
  virtual ~Group() = default;
  virtual absl::Status Run(Stream& stream, const CollectiveSpec& spec, const std::byte* input,
                           std::byte* output) = 0;
};

// A versioned mailbox: the latest published bytes win; readers never block writers.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual absl::Status Publish(Stream& stream, const std::byte* from, int64_t size_bytes) = 0;
  // Version 0 (zeros) before the first Publish.
  virtual absl::Status TakeLatest(Stream& stream, std::byte* to, int64_t size_bytes) = 0;
};

// What a communicator that watches over other processes wants to know of a run, and tell it.
// Called from threads of the communicator's own.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual uint64_t Progress() const = 0;  // instructions begun, roughly; grows while it gets on
  virtual std::string Where() const = 0;  // what is being done now; empty between runs
  virtual void Cancel() = 0;              // ends all waits
};

// Endpoints may be spread over processes: an endpoint is of the process that has its device. All
// processes make the same calls that concern them all (Connect, Gather), in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int num_processes() const { return 1; }
  virtual int process() const { return 0; }  // this one
  // After Connect: the process that registered the endpoint; -1 when none has.
  virtual int ProcessOf(const Endpoint& endpoint) const = 0;

  // Called once per local endpoint while preparing, before any port is opened. A communicator
  // serves one session, and outlives it.
  virtual absl::Status Register(const Endpoint& self, Device& device,
                                Cancellation& cancellation) = 0;
  // Each end is opened once. DistributedError when the two ends list different transfers.
  virtual absl::StatusOr<std::unique_ptr<SendPort>> OpenSend(
      const Endpoint& self, const Endpoint& peer, Channel channel,
      std::span<const Transfer> transfers) = 0;
  virtual absl::StatusOr<std::unique_ptr<RecvPort>> OpenRecv(
      const Endpoint& self, const Endpoint& peer, Channel channel,
      std::span<const Transfer> transfers) = 0;
  // `members` in rank order, the same on each member; `self` is one of them. `id` tells apart
  // groups with the same members (one per collective node).
  virtual absl::StatusOr<std::unique_ptr<Group>> OpenGroup(const Endpoint& self,
                                                           std::span<const Endpoint> members,
                                                           int32_t id) = 0;
  virtual absl::StatusOr<std::unique_ptr<Mailbox>> OpenMailbox(const Endpoint& self,
                                                               const std::string& name,
                                                               int64_t size_bytes) = 0;

  // All that is to be opened here is open; what reaches into other processes may be used when this
  // returns. DistributedError when they do not fit.
  virtual absl::Status Connect() { return absl::OkStatus(); }
  // From now on `observer` is asked and told, until it is replaced or taken away (null).
  virtual void Observe(RunObserver*) {}
  // The bytes that each process brings, by process; between runs.
  virtual absl::StatusOr<std::vector<std::string>> Gather(std::string bytes) {
    return std::vector<std::string>{std::move(bytes)};
  }
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_COMMUNICATOR_H_
