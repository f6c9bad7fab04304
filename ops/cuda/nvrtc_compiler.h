// NVRTC, the toolkit's run-time compiler, as a CudaCompiler. It needs no GPU. The library is loaded
// when asked for: programs start without it.
#ifndef MILLRACE_OPS_CUDA_NVRTC_COMPILER_H_
#define MILLRACE_OPS_CUDA_NVRTC_COMPILER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/cuda/cuda_compiler.h"

namespace millrace {

// DeviceError when there is no NVRTC, or one that is too old.
absl::StatusOr<std::unique_ptr<CudaCompiler>> CreateNvrtcCompiler();

// What the assembler says of a function.
struct KernelResources {
  std::string function;
  int registers = 0;
  int64_t stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;
};

// A source compiled for inspection: the image, what the assembler reports, and warnings.
struct InspectedKernels {
  std::string image;
  std::vector<KernelResources> functions;
  std::string warnings;  // empty: none
};
absl::StatusOr<InspectedKernels> InspectSource(std::string_view source, int sm);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_NVRTC_COMPILER_H_
