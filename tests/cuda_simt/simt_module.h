// Kernel sources compiled by the host's compiler and loaded into this process.
#ifndef MILLRACE_TESTS_CUDA_SIMT_SIMT_MODULE_H_
#define MILLRACE_TESTS_CUDA_SIMT_SIMT_MODULE_H_

#include <map>
#include <memory>
#include <span>
#include <string>

#include "graph/status.h"
#include "ops/cuda/cuda_launch.h"
#include "tests/cuda_simt/simt_block.h"

namespace millrace {

class SimtModule {
 public:
  // All functions of the launches as one library. What was compiled before comes from a folder in
  // the build tree.
  static absl::StatusOr<std::unique_ptr<SimtModule>> Build(std::span<const CudaLaunch> launches);
  ~SimtModule();
  SimtModule(const SimtModule&) = delete;
  SimtModule& operator=(const SimtModule&) = delete;

  // With the addresses of its parameters, in their order.
  absl::Status Run(const CudaLaunch& launch, std::span<void* const> params, SimtOrder order) const;

 private:
  using Trampoline = void (*)(void* const* params);
  SimtModule() = default;
  absl::Status Load(const std::string& path, std::span<const CudaLaunch> launches);

  void* library_ = nullptr;
  std::map<std::string, Trampoline> functions_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIMT_SIMT_MODULE_H_
