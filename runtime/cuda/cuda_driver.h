// CudaDriver: the driver API as a table of entry points. All code that drives a GPU goes through
// it, so nothing links against libcuda, and the simulated driver (tests/cuda_sim) can stand in for
// it. The table holds what the project uses and nothing else.
#ifndef MILLRACE_RUNTIME_CUDA_CUDA_DRIVER_H_
#define MILLRACE_RUNTIME_CUDA_CUDA_DRIVER_H_

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>
#include <string_view>
#include <vector>

#include "graph/status.h"

namespace millrace {

// X(field, symbol, version): `version` is the CUDA release that brought this signature; it names
// the type in cudaTypedefs.h and is what the driver is asked for, so the two cannot differ.
#define MILLRACE_CUDA_ENTRY_POINTS(X)                              \
  X(Init, cuInit, 2000)                                            \
  X(DriverGetVersion, cuDriverGetVersion, 2020)                    \
  X(GetErrorName, cuGetErrorName, 6000)                            \
  X(GetErrorString, cuGetErrorString, 6000)                        \
  /* Devices and contexts. */                                      \
  X(DeviceGetCount, cuDeviceGetCount, 2000)                        \
  X(DeviceGet, cuDeviceGet, 2000)                                  \
  X(DeviceGetName, cuDeviceGetName, 2000)                          \
  X(DeviceTotalMem, cuDeviceTotalMem, 3020)                        \
  X(DeviceGetAttribute, cuDeviceGetAttribute, 2000)                \
  X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010)                  \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)        \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 11000)     \
  X(CtxSetCurrent, cuCtxSetCurrent, 4000)                          \
  X(CtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050)  \
  /* Memory. */                                                    \
  X(MemGetInfo, cuMemGetInfo, 3020)                                \
  X(MemAlloc, cuMemAlloc, 3020)                                    \
  X(MemFree, cuMemFree, 3020)                                      \
  X(MemHostAlloc, cuMemHostAlloc, 2020)                            \
  X(MemFreeHost, cuMemFreeHost, 2000)                              \
  X(MemcpyAsync, cuMemcpyAsync, 4000)                              \
  X(Memcpy2DAsync, cuMemcpy2DAsync, 3020)                          \
  X(PointerGetAttributes, cuPointerGetAttributes, 7000)            \
  X(MemsetD8Async, cuMemsetD8Async, 3020)                          \
  /* Other GPUs and other processes. */                            \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000)              \
  X(CtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000)              \
  X(IpcGetMemHandle, cuIpcGetMemHandle, 4010)                      \
  X(IpcOpenMemHandle, cuIpcOpenMemHandle, 11000)                   \
  X(IpcCloseMemHandle, cuIpcCloseMemHandle, 4010)                  \
  /* Streams and events. */                                        \
  X(StreamCreateWithPriority, cuStreamCreateWithPriority, 5050)    \
  X(StreamDestroy, cuStreamDestroy, 4000)                          \
  X(StreamQuery, cuStreamQuery, 2000)                              \
  X(StreamSynchronize, cuStreamSynchronize, 2000)                  \
  X(StreamWaitEvent, cuStreamWaitEvent, 3020)                      \
  X(StreamWaitValue32, cuStreamWaitValue32, 11070)                 \
  X(StreamWriteValue32, cuStreamWriteValue32, 11070)               \
  X(LaunchHostFunc, cuLaunchHostFunc, 10000)                       \
  X(EventCreate, cuEventCreate, 2000)                              \
  X(EventDestroy, cuEventDestroy, 4000)                            \
  X(EventRecord, cuEventRecord, 2000)                              \
  /* Capture and replay. */                                        \
  X(StreamBeginCapture, cuStreamBeginCapture, 10010)               \
  X(StreamEndCapture, cuStreamEndCapture, 10000)                   \
  X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040) \
  X(GraphLaunch, cuGraphLaunch, 10000)                             \
  X(GraphExecDestroy, cuGraphExecDestroy, 10000)                   \
  X(GraphDestroy, cuGraphDestroy, 10000)                           \
  /* Kernels. */                                                   \
  X(ModuleLoadData, cuModuleLoadData, 2000)                        \
  X(ModuleGetFunction, cuModuleGetFunction, 2000)                  \
  X(ModuleUnload, cuModuleUnload, 2000)                            \
  X(LaunchKernel, cuLaunchKernel, 4000)

struct CudaDriver {
#define MILLRACE_CUDA_FIELD(field, symbol, version) PFN_##symbol##_v##version field = nullptr;
  MILLRACE_CUDA_ENTRY_POINTS(MILLRACE_CUDA_FIELD)
#undef MILLRACE_CUDA_FIELD
};

// The machine's driver, loaded and initialized once per process. DeviceError when there is no
// driver, it is too old, or it finds no GPU.
absl::StatusOr<const CudaDriver*> LoadCudaDriver();

// The table as `get` (the driver's cuGetProcAddress) gives it, not initialized. DeviceError naming
// what is missing.
absl::StatusOr<CudaDriver> ResolveCudaDriver(PFN_cuGetProcAddress_v12000 get);

// Whether `result` means that the context is lost, so that every later call on it fails.
bool IsStickyCudaError(CUresult result);

// What a failed call means to the user. `doing` says what was attempted, and on what ("cuda:0:
// recording an event"). OutOfMemoryError for CUDA_ERROR_OUT_OF_MEMORY, else DeviceError. A sticky
// error may stem from any work issued before, and the message says so.
absl::Status CudaError(const CudaDriver& driver, CUresult result, std::string_view doing);

struct CudaDeviceInfo {
  int ordinal = 0;
  std::string name;    // "NVIDIA H100 80GB HBM3"
  std::string bus_id;  // "0000:65:00.0"
  int64_t memory_bytes = 0;
  int sm_version = 0;  // 90 for sm_90
  int multiprocessors = 0;
};

// The GPUs of the machine, by ordinal.
absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices(const CudaDriver& driver);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_CUDA_DRIVER_H_
