// Device, Stream, Event: what the executor needs of a backend, and nothing else. Backends: cpu,
// cuda, null.
//
// Two kinds of devices. A synchronous one (cpu) runs a stream's work on the thread that calls the
// stream; the executor gives each stream a thread. An asynchronous one (cuda) queues it; one thread
// issues for all streams, in issue order.
#ifndef MILLRACE_RUNTIME_DEVICE_H_
#define MILLRACE_RUNTIME_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "runtime/kernel.h"

namespace millrace {

// Memory on a device (or host memory it can reach, or a scratch file). Freed on destruction;
// movable. data() is an address in the device's space: the host may not touch it for cuda kDevice.
class Buffer {
 public:
  using Deleter = std::function<void(void* data, int64_t size)>;
  Buffer() = default;
  Buffer(void* data, int64_t size, MemorySpace space, Deleter deleter)
      : data_(data), size_(size), space_(space), deleter_(std::move(deleter)) {}
  Buffer(Buffer&& o) noexcept { *this = std::move(o); }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(space_, o.space_);
    std::swap(deleter_, o.deleter_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr && deleter_) deleter_(data_, size_);
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t size() const { return size_; }
  MemorySpace space() const { return space_; }

 private:
  void* data_ = nullptr;
  int64_t size_ = 0;
  MemorySpace space_ = MemorySpace::kDevice;
  Deleter deleter_;
};

// Set once when anything of a run fails; every blocking wait gives up when it sees it.
class Cancellation {
 public:
  bool requested() const { return requested_.load(std::memory_order_acquire); }
  void Request() { requested_.store(true, std::memory_order_release); }
  void Reset() { requested_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> requested_{false};
};

// A monotone counter in host memory that streams of any device can signal and wait for, across
// devices: the control half of a one-sided transfer. Wraps around; "reached" is (int32)(value -
// target) >= 0. Host threads wait with runtime/flag_wait.h; `waiters` counts those asleep.
struct alignas(64) Flag {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> waiters{0};
  bool between_processes = false;  // lies in shared memory; set before it is used
};

class Event {
 public:
  virtual ~Event() = default;
};

// Moves `rows` rows of `row_bytes` each; addresses as the stream's device sees them.
struct CopyRegion {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  MemorySpace to_space = MemorySpace::kDevice;
  MemorySpace from_space = MemorySpace::kDevice;
  int64_t row_bytes = 0;
  int64_t rows = 1;
  int64_t to_pitch_bytes = 0, from_pitch_bytes = 0;  // unused when rows is 1
};

using HostFunction = absl::AnyInvocable<absl::Status()>;

class Stream {
 public:
  virtual ~Stream() = default;

  // Each takes effect after everything issued to this stream before. A synchronous stream returns
  // when it is done; an asynchronous one when it is queued, and later failures come from
  // Synchronize.
  virtual absl::Status Launch(Kernel& kernel, const KernelArgs& args) = 0;
  virtual absl::Status Copy(const CopyRegion& region) = 0;
  // Generations of an event grow by one per Record. Wait is for the given one: on an asynchronous
  // device the last issued Record is that one, by the plan's rules.
  virtual absl::Status Record(Event& event, uint64_t generation) = 0;
  virtual absl::Status Wait(Event& event, uint64_t generation) = 0;
  virtual absl::Status Signal(Flag& flag, uint32_t value) = 0;
  virtual absl::Status WaitFlag(Flag& flag, uint32_t value) = 0;
  // Runs `function` on the host in stream order. It outlives the call (owned by the caller until
  // Synchronize returns); it may not call the device.
  virtual absl::Status RunOnHost(HostFunction& function) = 0;
  // Blocks until all work is done; the first failure of it.
  virtual absl::Status Synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu:0"
  virtual std::string_view kind() const = 0;  // "cpu"
  // Streams queue work and one thread may issue for all of them.
  virtual bool asynchronous() const = 0;

  // kBufferAlignment-aligned. OutOfMemoryError with what was asked for and what there is;
  // kFile: a scratch file in the device's offload folder, UsageError when it has none.
  virtual absl::StatusOr<Buffer> Allocate(MemorySpace space, int64_t size_bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(const PlanStream& stream,
                                                               Cancellation& cancellation) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  // Host memory for flags that this device's streams may signal and wait for.
  virtual absl::StatusOr<Buffer> AllocateFlags(int64_t count) = 0;

  // Blocking transfers for session input and output, outside any stream.
  virtual absl::Status Write(std::byte* device, const std::byte* host, int64_t size_bytes) = 0;
  virtual absl::Status Read(std::byte* host, const std::byte* device, int64_t size_bytes) = 0;

  // Host threads may read and write this device's kDevice memory directly.
  virtual bool host_accessible() const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DEVICE_H_
