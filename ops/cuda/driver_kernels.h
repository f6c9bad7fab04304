// The kernel library of the cuda backend: what CudaTarget offers, prepared for a device. Sources
// are compiled when a plan is prepared, once for each function and device.
#ifndef MILLRACE_OPS_CUDA_DRIVER_KERNELS_H_
#define MILLRACE_OPS_CUDA_DRIVER_KERNELS_H_

#include <memory>

#include "ops/cuda/cuda_compiler.h"
#include "runtime/kernel.h"

namespace millrace {

struct CublasLtApi;  // cublaslt_api.h
struct CudnnApi;     // cudnn_api.h

struct CudaLibraries {
  std::unique_ptr<CudaCompiler> compiler;
  // Null: the machine's, loaded when they are needed.
  const CublasLtApi* cublaslt = nullptr;
  const CudnnApi* cudnn = nullptr;
};
// Kernels may outlive the library, but not the devices they were prepared for.
std::unique_ptr<KernelLibrary> CreateCudaKernelLibrary(CudaLibraries libraries);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DRIVER_KERNELS_H_
