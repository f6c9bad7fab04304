#include "runtime/cpu/cpu_device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "graph/strings.h"
#include "runtime/flag_wait.h"
#include "runtime/scratch_file.h"
#include "runtime/strided_copy.h"

namespace millrace {
namespace {

// The generations of an event, modulo 2^32: within a run they differ by far less.
class CpuEvent : public Event {
 public:
  Flag flag;
};

class CpuStream : public Stream {
 public:
  explicit CpuStream(const Cancellation& cancellation) : cancellation_(cancellation) {}

  absl::Status Launch(Kernel& kernel, const KernelArgs& args) override { return kernel.Run(args); }

  absl::Status Copy(const CopyRegion& region) override {
    CopyOnHost(region);
    return absl::OkStatus();
  }

  absl::Status Record(Event& event, uint64_t generation) override {
    return Signal(static_cast<CpuEvent&>(event).flag, static_cast<uint32_t>(generation));
  }

  absl::Status Wait(Event& event, uint64_t generation) override {
    return WaitFlag(static_cast<CpuEvent&>(event).flag, static_cast<uint32_t>(generation));
  }

  absl::Status Signal(Flag& flag, uint32_t value) override {
    SignalFlag(flag, value);
    return absl::OkStatus();
  }

  absl::Status WaitFlag(Flag& flag, uint32_t value) override {
    return WaitForFlag(flag, value, cancellation_);
  }

  absl::Status RunOnHost(HostFunction& function) override { return function(); }
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  const Cancellation& cancellation_;
};

// Null when the host has not that much.
void* AllocateHostMemory(int64_t size_bytes) {
  // At least one byte, so that an empty buffer has an address too.
  const size_t rounded =
      (static_cast<size_t>(size_bytes) / kBufferAlignment + 1) * kBufferAlignment;
  return std::aligned_alloc(kBufferAlignment, rounded);
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(CpuDeviceOptions options) : options_(std::move(options)) {}

  std::string_view name() const override { return options_.name; }
  std::string_view kind() const override { return "cpu"; }
  bool asynchronous() const override { return false; }
  bool host_accessible() const override { return true; }

  absl::StatusOr<Buffer> Allocate(MemorySpace space, int64_t size_bytes) override {
    if (size_bytes < 0 || size_bytes > kMaxBytes) {
      return UsageError(StrCat(options_.name, ": cannot allocate ", size_bytes, " bytes"));
    }
    switch (space) {
      case MemorySpace::kDevice:
        return AllocateWithinBudget(size_bytes);
      case MemorySpace::kHost:
        return AllocateOutsideBudget(MemorySpace::kHost, size_bytes);
      case MemorySpace::kFile:
        break;
    }
    if (options_.offload_directory.empty()) {
      return UsageError(StrCat(options_.name, ": the plan offloads ", size_bytes,
                               " bytes to a file, but the device has no offload folder; "
                               "give it one (--offload DIR)"));
    }
    return CreateScratchFile(options_.offload_directory, size_bytes);
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(const PlanStream&,
                                                       Cancellation& cancellation) override {
    return std::make_unique<CpuStream>(cancellation);
  }

  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::make_unique<CpuEvent>();
  }

  absl::StatusOr<Buffer> AllocateFlags(int64_t count) override {
    MILLRACE_CHECK(count >= 0 && count <= kMaxBytes / static_cast<int64_t>(sizeof(Flag)));
    MILLRACE_ASSIGN_OR_RETURN(
        Buffer buffer,
        AllocateHere(MemorySpace::kHost, count * static_cast<int64_t>(sizeof(Flag))));
    for (int64_t i = 0; i < count; ++i) new (buffer.data() + i * sizeof(Flag)) Flag();
    return buffer;
  }

  absl::Status Write(std::byte* device, const std::byte* host, int64_t size_bytes) override {
    if (size_bytes > 0) std::memcpy(device, host, static_cast<size_t>(size_bytes));
    return absl::OkStatus();
  }

  absl::Status Read(std::byte* host, const std::byte* device, int64_t size_bytes) override {
    return Write(host, device, size_bytes);
  }

 private:
  absl::StatusOr<Buffer> AllocateWithinBudget(int64_t size_bytes) {
    const int64_t used = used_bytes_.fetch_add(size_bytes);
    if (options_.memory_bytes > 0 && size_bytes > options_.memory_bytes - used) {
      used_bytes_.fetch_sub(size_bytes);
      return OutOfMemoryError(StrCat(options_.name, ": ", size_bytes, " bytes asked for, ", used,
                                     " in use, limit ", options_.memory_bytes));
    }
    absl::StatusOr<Buffer> memory = AllocateOutsideBudget(MemorySpace::kDevice, size_bytes);
    if (!memory.ok()) {
      used_bytes_.fetch_sub(size_bytes);
      return memory;
    }
    void* data = memory->data();
    return Buffer(
        data, size_bytes, MemorySpace::kDevice,
        [this, held = std::make_shared<Buffer>(*std::move(memory))](void*, int64_t size) mutable {
          held.reset();
          used_bytes_.fetch_sub(size);
        });
  }

  absl::StatusOr<Buffer> AllocateOutsideBudget(MemorySpace space, int64_t size_bytes) {
    return options_.allocate ? options_.allocate(space, size_bytes)
                             : AllocateHere(space, size_bytes);
  }

  absl::StatusOr<Buffer> AllocateHere(MemorySpace space, int64_t size_bytes) {
    void* data = AllocateHostMemory(size_bytes);
    if (data == nullptr) return HostOutOfMemory(size_bytes);
    return Buffer(data, size_bytes, space, [](void* data, int64_t) { std::free(data); });
  }

  absl::Status HostOutOfMemory(int64_t size_bytes) const {
    return OutOfMemoryError(StrCat(options_.name, ": the host refused ", size_bytes, " bytes (",
                                   used_bytes_.load(), " in use by the device)"));
  }

  const CpuDeviceOptions options_;
  std::atomic<int64_t> used_bytes_{0};
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace millrace
