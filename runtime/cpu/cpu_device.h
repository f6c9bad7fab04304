// The cpu device: host memory under a budget, streams that run on the thread that calls them.
#ifndef MILLRACE_RUNTIME_CPU_CPU_DEVICE_H_
#define MILLRACE_RUNTIME_CPU_CPU_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace millrace {

using HostAllocator =
    std::function<absl::StatusOr<Buffer>(MemorySpace space, int64_t size_bytes)>;

struct CpuDeviceOptions {
  std::string name = "cpu:0";
  int64_t memory_bytes = 0;            // what kDevice buffers may use together; 0: unlimited
  std::string offload_directory = "";  // where kFile buffers lie; "": they are refused
  // Where kDevice and kHost buffers come from, such as memory that other processes can reach; null:
  // this process's own.
  HostAllocator allocate = nullptr;
};

// kHost buffers are plain host memory outside the budget. kFile buffers are scratch files that have
// no name and go with the buffer, mapped, their space reserved when they are made.
std::unique_ptr<Device> CreateCpuDevice(const CpuDeviceOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CPU_CPU_DEVICE_H_
