#include "runtime/null/null_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "graph/strings.h"
#include "runtime/null/null_log.h"

namespace millrace {
namespace {

class NullKernel : public Kernel {
 public:
  explicit NullKernel(const KernelRequest& request)
      : name(StrCat(request.query.op, " (", request.variant, ")")),
        num_inputs(request.inputs.size()),
        num_outputs(request.outputs.size()) {}

  absl::Status Run(const KernelArgs&) override { return absl::OkStatus(); }

  const std::string name;
  const size_t num_inputs, num_outputs;
};

class NullEvent : public Event {
 public:
  explicit NullEvent(int number) : number(number) {}
  const int number;
};

class NullStream : public Stream {
 public:
  NullStream(std::string name, const std::atomic<bool>& recording, NullLog& log)
      : name_(std::move(name)), recording_(recording), log_(log) {}

  absl::Status Launch(Kernel& kernel, const KernelArgs& args) override {
    if (!recording()) return absl::OkStatus();
    const auto& k = static_cast<const NullKernel&>(kernel);
    std::string line = StrCat("launch ", k.name);
    for (size_t i = 0; i < k.num_inputs; ++i) StrAppend(&line, " ", log_.Name(args.inputs[i]));
    line += " ->";
    for (size_t i = 0; i < k.num_outputs; ++i) StrAppend(&line, " ", log_.Name(args.outputs[i]));
    if (args.scratch != nullptr) StrAppend(&line, " scratch ", log_.Name(args.scratch));
    return Add(line);
  }

  absl::Status Copy(const CopyRegion& r) override {
    if (!recording()) return absl::OkStatus();
    std::string line =
        StrCat("copy ", log_.Name(r.from), " -> ", log_.Name(r.to), " ", r.row_bytes, " bytes");
    if (r.rows != 1) {
      StrAppend(&line, " x ", r.rows, " rows, pitch ", r.from_pitch_bytes, " -> ",
                r.to_pitch_bytes);
    }
    return Add(line);
  }

  absl::Status Record(Event& event, uint64_t generation) override {
    return AddEvent("record", event, generation);
  }
  absl::Status Wait(Event& event, uint64_t generation) override {
    return AddEvent("wait", event, generation);
  }
  absl::Status Signal(Flag& flag, uint32_t value) override {
    return AddFlag("signal", flag, value);
  }
  absl::Status WaitFlag(Flag& flag, uint32_t value) override {
    return AddFlag("wait flag", flag, value);
  }
  absl::Status RunOnHost(HostFunction&) override {
    return recording() ? Add("host") : absl::OkStatus();
  }
  absl::Status Synchronize() override {
    return recording() ? Add("synchronize") : absl::OkStatus();
  }

 private:
  bool recording() const { return recording_.load(std::memory_order_relaxed); }

  absl::Status Add(std::string_view what) {
    log_.Add(StrCat(name_, ": ", what));
    return absl::OkStatus();
  }

  absl::Status AddEvent(std::string_view what, const Event& event, uint64_t generation) {
    if (!recording()) return absl::OkStatus();
    return Add(StrCat(what, " e", static_cast<const NullEvent&>(event).number, " #", generation));
  }

  absl::Status AddFlag(std::string_view what, const Flag& flag, uint32_t value) {
    return recording() ? Add(StrCat(what, " ", log_.Name(&flag), " #", value)) : absl::OkStatus();
  }

  const std::string name_;
  const std::atomic<bool>& recording_;
  NullLog& log_;
};

class NullDeviceImpl : public NullDevice {
 public:
  NullDeviceImpl(std::string name, std::string kind)
      : name_(std::move(name)), kind_(std::move(kind)) {}

  std::string_view name() const override { return name_; }
  std::string_view kind() const override { return kind_; }
  bool asynchronous() const override { return true; }
  bool host_accessible() const override { return true; }

  absl::StatusOr<Buffer> Allocate(MemorySpace space, int64_t size_bytes) override {
    return Map('b', space, size_bytes);
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(const PlanStream& stream,
                                                       Cancellation&) override {
    return std::make_unique<NullStream>(stream.name, recording_, log_);
  }

  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::make_unique<NullEvent>(next_event_.fetch_add(1));
  }

  absl::StatusOr<Buffer> AllocateFlags(int64_t count) override {
    constexpr int64_t kFlagBytes = sizeof(Flag);
    MILLRACE_ASSIGN_OR_RETURN(Buffer flags, Map('f', MemorySpace::kHost, count * kFlagBytes));
    for (int64_t i = 0; i < count; ++i) new (flags.data() + i * kFlagBytes) Flag();
    return flags;
  }

  absl::Status Write(std::byte* device, const std::byte* host, int64_t size_bytes) override {
    if (size_bytes > 0) std::memcpy(device, host, static_cast<size_t>(size_bytes));
    return absl::OkStatus();
  }
  absl::Status Read(std::byte* host, const std::byte* device, int64_t size_bytes) override {
    return Write(host, device, size_bytes);
  }

  std::vector<std::string> Log() const override { return log_.lines(); }
  void Clear() override { log_.Clear(); }
  void set_recording(bool recording) override { recording_.store(recording); }

 private:
  // Address space only: pages come when they are touched.
  absl::StatusOr<Buffer> Map(char prefix, MemorySpace space, int64_t size_bytes) {
    const auto length = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
    void* data = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      return OutOfMemoryError(
          StrCat(name_, ": cannot map ", size_bytes, " bytes: ", std::strerror(errno)));
    }
    log_.AddRange(prefix, data, size_bytes);
    return Buffer(data, size_bytes, space, [this, length](void* data, int64_t) {
      log_.RemoveRange(data);
      munmap(data, length);
    });
  }

  const std::string name_, kind_;
  std::atomic<bool> recording_{true};
  std::atomic<int> next_event_{0};
  NullLog log_;
};

}  // namespace

std::unique_ptr<NullDevice> CreateNullDevice(std::string name, std::string kind) {
  return std::make_unique<NullDeviceImpl>(std::move(name), std::move(kind));
}

absl::StatusOr<std::unique_ptr<Kernel>> NullKernelLibrary::Prepare(const KernelRequest& request) {
  return std::make_unique<NullKernel>(request);
}

}  // namespace millrace
