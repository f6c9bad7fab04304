// From kernel sources to what a GPU loads.
#ifndef MILLRACE_OPS_CUDA_CUDA_COMPILER_H_
#define MILLRACE_OPS_CUDA_CUDA_COMPILER_H_

#include <memory>
#include <string>

#include "graph/status.h"
#include "ops/cuda/cuda_launch.h"

namespace millrace {

class CudaCompiler {
 public:
  virtual ~CudaCompiler() = default;
  // The image of a module with the launch's function, for GPUs of compute capability `sm` (90:
  // sm_90). One caller at a time.
  virtual absl::StatusOr<std::string> Compile(const CudaLaunch& launch, int sm) = 0;
  // Tells its images from those of other compilers, and versions.
  virtual std::string name() const = 0;
};

// Keeps images in files of `folder` (made when needed), by a hash of all that they are made from.
// Files that are damaged, or cannot be written, are as good as not there.
std::unique_ptr<CudaCompiler> CacheOnDisk(std::unique_ptr<CudaCompiler> compiler,
                                          std::string folder);

// $MILLRACE_CACHE, else $XDG_CACHE_HOME/millrace, else ~/.cache/millrace; with "kernels" below it.
// Empty when there is no such place.
std::string KernelCacheFolder();

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_COMPILER_H_
