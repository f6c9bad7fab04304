// CudaContext: what a logical device, its streams, events and buffers share: the GPU's primary
// context, the name for messages, the memory budget, and the flag waits that are still open.
// Several logical devices on one GPU share the primary context and nothing else. Whatever uses the
// context holds a shared_ptr to it, so the order of destruction does not matter.
#ifndef MILLRACE_RUNTIME_CUDA_CUDA_CONTEXT_H_
#define MILLRACE_RUNTIME_CUDA_CUDA_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/device.h"

namespace millrace {

class CudaContext {
 public:
  // `budget_bytes`: device memory the logical device may hold; 0: all the GPU has.
  static absl::StatusOr<std::shared_ptr<CudaContext>> Create(const CudaDriver& driver,
                                                             std::string name, int ordinal,
                                                             int64_t budget_bytes);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& driver() const { return driver_; }
  const std::string& name() const { return name_; }
  CUcontext native() const { return context_; }
  CUdevice device() const { return device_; }

  // Makes the context current on the calling thread. Every use of the driver starts with it: one
  // thread issues for many devices, and libraries may have changed the current context.
  absl::Status Enter() const;
  // The same before something is freed or destroyed, which is tried in any case: errors then mean
  // that the context is lost, and all it held with it.
  void EnterToFree() const { Enter().IgnoreError(); }
  // "cuda:0: <doing>: CUDA_ERROR_...". For results other than CUDA_SUCCESS.
  absl::Status Error(CUresult result, std::string_view doing) const;

  // Device memory within the budget, aligned to kBufferAlignment.
  absl::StatusOr<CUdeviceptr> AllocateDevice(int64_t size_bytes);
  void FreeDevice(CUdeviceptr data, int64_t size_bytes);
  // Host memory that every GPU reaches at the address the host uses.
  absl::StatusOr<void*> AllocatePinned(int64_t size_bytes);
  void FreePinned(void* data);

  // A flag wait issued to a stream of this device and not known to be over.
  struct FlagWait {
    const Stream* stream = nullptr;
    const Cancellation* run = nullptr;
    Flag* flag = nullptr;
    uint32_t value = 0;
  };
  void AddFlagWait(const FlagWait& wait);
  void DropFlagWaits(const Stream* stream);
  bool HasFlagWaits() const;
  // Lets the run's open waits pass by advancing their flags. For runs that failed: whoever should
  // have signalled may never do so, and a stream on the GPU cannot be stopped in any other way.
  void ReleaseFlagWaits(const Cancellation* run);

 private:
  CudaContext(const CudaDriver& driver, std::string name, int64_t budget_bytes)
      : driver_(driver), name_(std::move(name)), budget_bytes_(budget_bytes) {}
  absl::Status CheckCapabilities() const;
  absl::Status OutOfDeviceMemory(int64_t size_bytes) const;

  const CudaDriver& driver_;
  const std::string name_;
  const int64_t budget_bytes_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;  // null until retained

  mutable std::mutex mutex_;
  int64_t used_bytes_ = 0;            // guarded by mutex_
  std::vector<FlagWait> flag_waits_;  // guarded by mutex_
};

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_CUDA_CONTEXT_H_
