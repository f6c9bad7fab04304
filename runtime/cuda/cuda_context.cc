#include "runtime/cuda/cuda_context.h"

#include <algorithm>

#include "graph/strings.h"
#include "runtime/flag_wait.h"

namespace millrace {

absl::StatusOr<std::shared_ptr<CudaContext>> CudaContext::Create(const CudaDriver& driver,
                                                                 std::string name, int ordinal,
                                                                 int64_t budget_bytes) {
  std::shared_ptr<CudaContext> context(new CudaContext(driver, std::move(name), budget_bytes));
  int count = 0;
  if (CUresult r = driver.DeviceGetCount(&count); r != CUDA_SUCCESS) {
    return context->Error(r, "counting GPUs");
  }
  if (ordinal < 0 || ordinal >= count) {
    return UsageError(StrCat(context->name(), ": there is no GPU ", ordinal, "; this machine has ",
                             count, ", counted from 0"));
  }
  if (CUresult r = driver.DeviceGet(&context->device_, ordinal); r != CUDA_SUCCESS) {
    return context->Error(r, StrCat("opening GPU ", ordinal));
  }
  MILLRACE_RETURN_IF_ERROR(context->CheckCapabilities());
  CUcontext native = nullptr;
  if (CUresult r = driver.DevicePrimaryCtxRetain(&native, context->device_); r != CUDA_SUCCESS) {
    return context->Error(r, StrCat("opening the context of GPU ", ordinal));
  }
  context->context_ = native;
  MILLRACE_RETURN_IF_ERROR(context->Enter());
  return context;
}

CudaContext::~CudaContext() {
  if (context_ != nullptr) driver_.DevicePrimaryCtxRelease(device_);
}

absl::Status CudaContext::CheckCapabilities() const {
  int unified = 0;
  if (CUresult r =
          driver_.DeviceGetAttribute(&unified, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device_);
      r != CUDA_SUCCESS) {
    return Error(r, "asking for unified addressing");
  }
  if (unified == 0) {
    return DeviceError(StrCat(name_, ": the GPU lacks unified addressing, which the engine needs"));
  }
  size_t total = 0;
  if (CUresult r = driver_.DeviceTotalMem(&total, device_); r != CUDA_SUCCESS) {
    return Error(r, "asking for the size of its memory");
  }
  if (budget_bytes_ < 0 || budget_bytes_ > static_cast<int64_t>(total)) {
    return UsageError(StrCat(name_, ": a memory budget of ", budget_bytes_,
                             " bytes was asked for; the GPU has ", total));
  }
  return absl::OkStatus();
}

absl::Status CudaContext::Enter() const {
  CUresult r = driver_.CtxSetCurrent(context_);
  if (r != CUDA_SUCCESS) return Error(r, "making its context current");
  return absl::OkStatus();
}

absl::Status CudaContext::Error(CUresult result, std::string_view doing) const {
  return CudaError(driver_, result, StrCat(name_, ": ", doing));
}

absl::StatusOr<CUdeviceptr> CudaContext::AllocateDevice(int64_t size_bytes) {
  MILLRACE_RETURN_IF_ERROR(Enter());
  {
    std::lock_guard lock(mutex_);
    if (budget_bytes_ > 0 && size_bytes > budget_bytes_ - used_bytes_) {
      return OutOfMemoryError(StrCat(name_, ": ", size_bytes,
                                     " bytes of device memory were asked for; ", used_bytes_,
                                     " of the budget of ", budget_bytes_, " are in use"));
    }
    used_bytes_ += size_bytes;
  }
  CUdeviceptr data = 0;
  CUresult r = driver_.MemAlloc(&data, static_cast<size_t>(size_bytes));
  if (r == CUDA_SUCCESS) return data;
  {
    std::lock_guard lock(mutex_);
    used_bytes_ -= size_bytes;
  }
  if (r == CUDA_ERROR_OUT_OF_MEMORY) return OutOfDeviceMemory(size_bytes);
  return Error(r, StrCat("allocating ", size_bytes, " bytes of device memory"));
}

absl::Status CudaContext::OutOfDeviceMemory(int64_t size_bytes) const {
  size_t free = 0, total = 0;
  std::string message = StrCat(name_, ": ", size_bytes, " bytes of device memory were asked for; ");
  if (driver_.MemGetInfo(&free, &total) == CUDA_SUCCESS) {
    StrAppend(&message, free, " of ", total, " are free");
  } else {
    StrAppend(&message, "there is not that much left");
  }
  return OutOfMemoryError(message);
}

void CudaContext::FreeDevice(CUdeviceptr data, int64_t size_bytes) {
  EnterToFree();
  driver_.MemFree(data);
  std::lock_guard lock(mutex_);
  used_bytes_ -= size_bytes;
}

absl::StatusOr<void*> CudaContext::AllocatePinned(int64_t size_bytes) {
  MILLRACE_RETURN_IF_ERROR(Enter());
  void* data = nullptr;
  CUresult r = driver_.MemHostAlloc(&data, static_cast<size_t>(size_bytes),
                                    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) {
    return OutOfMemoryError(StrCat(name_, ": ", size_bytes,
                                   " bytes of pinned host memory were asked for; the system does "
                                   "not have or does not grant that much"));
  }
  if (r != CUDA_SUCCESS) {
    return Error(r, StrCat("allocating ", size_bytes, " bytes of pinned host memory"));
  }
  return data;
}

void CudaContext::FreePinned(void* data) {
  EnterToFree();
  driver_.MemFreeHost(data);
}

void CudaContext::AddFlagWait(const FlagWait& wait) {
  std::lock_guard lock(mutex_);
  flag_waits_.push_back(wait);
}

void CudaContext::DropFlagWaits(const Stream* stream) {
  std::lock_guard lock(mutex_);
  std::erase_if(flag_waits_, [&](const FlagWait& w) { return w.stream == stream; });
}

bool CudaContext::HasFlagWaits() const {
  std::lock_guard lock(mutex_);
  return !flag_waits_.empty();
}

void CudaContext::ReleaseFlagWaits(const Cancellation* run) {
  std::lock_guard lock(mutex_);
  for (const FlagWait& wait : flag_waits_) {
    if (wait.run != run) continue;
    uint32_t now = wait.flag->value.load(std::memory_order_acquire);
    while (!FlagReached(now, wait.value) &&
           !wait.flag->value.compare_exchange_weak(now, wait.value, std::memory_order_acq_rel)) {
    }
  }
}

}  // namespace millrace
