// The headers that kernel sources include, as text: NVRTC has no other place to find them.
#ifndef MILLRACE_OPS_CUDA_DEVICE_HEADERS_H_
#define MILLRACE_OPS_CUDA_DEVICE_HEADERS_H_

#include <span>

namespace millrace {

struct DeviceHeader {
  const char* name;  // "scalar.cuh"
  const char* text;
};
std::span<const DeviceHeader> DeviceHeaders();  // of ops/cuda/device, sorted by name

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_HEADERS_H_
