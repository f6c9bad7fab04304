// The cuda backend: asynchronous devices on NVIDIA GPUs.
//
// Memory: kDevice by the driver, within the device's budget; kHost pinned, at the same address for
// the host and for every GPU; kFile a mapped scratch file. Flags lie in pinned memory, so streams
// of every GPU and host threads share them. Copies from and to other host memory (a cpu device's)
// and scratch files go through pinned staging with the host's help, in stream order.
#ifndef MILLRACE_RUNTIME_CUDA_CUDA_DEVICE_H_
#define MILLRACE_RUNTIME_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "graph/status.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/device.h"

namespace millrace {

struct CudaDeviceOptions {
  std::string name = "cuda:0";         // of the logical device
  int ordinal = 0;                     // of the GPU; several logical devices may share it
  int64_t memory_bytes = 0;            // budget of device memory; 0: all the GPU has
  std::string offload_directory = {};  // for kFile; empty: the device has none
};

// `driver` outlives the device and all that comes from it.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDriver& driver,
                                                         const CudaDeviceOptions& options);

// Makes the context of a cuda device current on the calling thread, for code that calls the driver
// or a CUDA library itself: kernel libraries, communicators. A stream does it before each launch.
absl::Status MakeCudaDeviceCurrent(Device& device);

// The driver that a cuda device was made with, and its GPU's compute capability: 90 for sm_90.
const CudaDriver& DriverOfCudaDevice(Device& device);
absl::StatusOr<int> SmVersionOfCudaDevice(Device& device);

// Lets the GPU of one cuda device reach the memory of another's directly (NVLink or PCIe), both
// ways; without it the driver copies by way of the host. True: they do; false: the machine cannot.
absl::StatusOr<bool> EnablePeerAccess(Device& one, Device& other);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_CUDA_DEVICE_H_
