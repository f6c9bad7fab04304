#include "runtime/cuda/cuda_device.h"

#include <new>

#include "graph/assert.h"
#include "graph/strings.h"
#include "runtime/cuda/cuda_context.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/scratch_file.h"

namespace millrace {
namespace {

// Large enough to hide the cost of handing a piece to the host, small enough to pin for each
// stream.
constexpr int64_t kStagingBytes = int64_t{4} << 20;

class CudaDevice : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaContext> context, std::string offload_directory)
      : context_(std::move(context)), offload_directory_(std::move(offload_directory)) {}

  // The stream of Read and Write.
  absl::Status OpenTransferStream() {
    PlanStream plan;
    plan.name = "transfer";
    plan.kind = StreamKind::kCopy;
    MILLRACE_ASSIGN_OR_RETURN(transfer_, CudaStream::Create(context_, plan, 0, never_cancelled_));
    return absl::OkStatus();
  }

  std::string_view name() const override { return context_->name(); }
  std::string_view kind() const override { return "cuda"; }
  bool asynchronous() const override { return true; }
  bool host_accessible() const override { return false; }

  absl::StatusOr<Buffer> Allocate(MemorySpace space, int64_t size_bytes) override {
    if (size_bytes < 0) {
      return UsageError(StrCat(name(), ": a buffer of ", size_bytes, " bytes was asked for"));
    }
    // The driver refuses to allocate nothing; a buffer of size 0 still has an address of its own.
    const int64_t backed_bytes = size_bytes == 0 ? kBufferAlignment : size_bytes;
    switch (space) {
      case MemorySpace::kDevice:
        return AllocateDevice(size_bytes, backed_bytes);
      case MemorySpace::kHost:
        return AllocateHost(size_bytes, backed_bytes);
      case MemorySpace::kFile:
        break;
    }
    if (offload_directory_.empty()) {
      return UsageError(StrCat(name(), ": a scratch file of ", size_bytes,
                               " bytes is needed, and the device has no offload directory"));
    }
    absl::StatusOr<Buffer> file = CreateScratchFile(offload_directory_, size_bytes);
    return file.ok() ? std::move(file) : Annotate(file.status(), name());
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(const PlanStream& stream,
                                                       Cancellation& cancellation) override {
    return CudaStream::Create(context_, stream, kStagingBytes, cancellation);
  }

  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return CudaEvent::Create(context_);
  }

  absl::StatusOr<Buffer> AllocateFlags(int64_t count) override {
    MILLRACE_ASSIGN_OR_RETURN(
        Buffer flags, Allocate(MemorySpace::kHost, count * static_cast<int64_t>(sizeof(Flag))));
    for (int64_t i = 0; i < count; ++i) new (flags.data() + i * sizeof(Flag)) Flag;
    return flags;
  }

  absl::Status Write(std::byte* device, const std::byte* host, int64_t size_bytes) override {
    return Transfer(device, host, size_bytes, "writing");
  }
  absl::Status Read(std::byte* host, const std::byte* device, int64_t size_bytes) override {
    return Transfer(host, device, size_bytes, "reading");
  }

  const CudaContext& context() const { return *context_; }

 private:
  absl::StatusOr<Buffer> AllocateDevice(int64_t size_bytes, int64_t backed_bytes) {
    MILLRACE_ASSIGN_OR_RETURN(CUdeviceptr data, context_->AllocateDevice(backed_bytes));
    return Buffer(reinterpret_cast<void*>(data), size_bytes, MemorySpace::kDevice,
                  [context = context_, backed_bytes](void* p, int64_t) {
                    context->FreeDevice(reinterpret_cast<CUdeviceptr>(p), backed_bytes);
                  });
  }

  absl::StatusOr<Buffer> AllocateHost(int64_t size_bytes, int64_t backed_bytes) {
    MILLRACE_ASSIGN_OR_RETURN(void* data, context_->AllocatePinned(backed_bytes));
    return Buffer(data, size_bytes, MemorySpace::kHost,
                  [context = context_](void* p, int64_t) { context->FreePinned(p); });
  }

  absl::Status Transfer(std::byte* to, const std::byte* from, int64_t size_bytes,
                        std::string_view doing) {
    if (size_bytes == 0) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(context_->Enter());
    const CudaDriver& driver = context_->driver();
    CUresult r =
        driver.MemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                           static_cast<size_t>(size_bytes), transfer_->native());
    if (r == CUDA_SUCCESS) r = driver.StreamSynchronize(transfer_->native());
    if (r == CUDA_SUCCESS) return absl::OkStatus();
    return context_->Error(r, StrCat(doing, " ", size_bytes, " bytes"));
  }

  const std::shared_ptr<CudaContext> context_;
  const std::string offload_directory_;
  Cancellation never_cancelled_;
  std::unique_ptr<CudaStream> transfer_;
};

const CudaContext& ContextOf(Device& device) {
  MILLRACE_CHECK(device.kind() == "cuda");
  return static_cast<CudaDevice&>(device).context();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDriver& driver,
                                                         const CudaDeviceOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::shared_ptr<CudaContext> context,
      CudaContext::Create(driver, options.name, options.ordinal, options.memory_bytes));
  auto device = std::make_unique<CudaDevice>(std::move(context), options.offload_directory);
  MILLRACE_RETURN_IF_ERROR(device->OpenTransferStream());
  return device;
}

absl::Status MakeCudaDeviceCurrent(Device& device) { return ContextOf(device).Enter(); }

const CudaDriver& DriverOfCudaDevice(Device& device) { return ContextOf(device).driver(); }

absl::StatusOr<int> SmVersionOfCudaDevice(Device& device) {
  const CudaContext& context = ContextOf(device);
  int major = 0, minor = 0;
  for (const auto& [attribute, value] :
       {std::pair(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major),
        std::pair(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor)}) {
    const CUresult r = context.driver().DeviceGetAttribute(value, attribute, context.device());
    if (r != CUDA_SUCCESS) return context.Error(r, "asking for the compute capability");
  }
  return major * 10 + minor;
}

absl::StatusOr<bool> EnablePeerAccess(Device& one, Device& other) {
  const CudaContext& a = ContextOf(one);
  const CudaContext& b = ContextOf(other);
  if (a.native() == b.native()) return true;
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    int can = 0;
    CUresult r = from->driver().DeviceCanAccessPeer(&can, from->device(), to->device());
    if (r != CUDA_SUCCESS) return from->Error(r, StrCat("asking for access to ", to->name()));
    if (can == 0) return false;
  }
  for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    MILLRACE_RETURN_IF_ERROR(from->Enter());
    CUresult r = from->driver().CtxEnablePeerAccess(to->native(), 0);
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
      return from->Error(r, StrCat("enabling access to ", to->name()));
    }
  }
  return true;
}

}  // namespace millrace
