#include "tests/cuda_sim/simt_compiler.h"

#include <cstdio>

#include "tests/cuda_simt/simt_module.h"

namespace millrace {
namespace {

std::vector<SimAccess> DeclaredBy(const CudaLaunch& launch, const SimLaunch& launched) {
  std::vector<SimAccess> accesses;
  for (size_t i = 0; i < launch.params.size(); ++i) {
    const CudaParam& param = launch.params[i];
    const auto address = launched.Param<CUdeviceptr>(i);
    if (param.size_bytes == 0) continue;
    if (param.reads) accesses.push_back({address, param.size_bytes, false});
    if (param.writes) accesses.push_back({address, param.size_bytes, true});
  }
  return accesses;
}

// Where the simulator keeps the bytes of parameter i; what has none is not touched.
void* BackingOf(const CudaParam& param, const SimLaunch& launched, size_t i) {
  const auto address = launched.Param<CUdeviceptr>(i);
  if (param.size_bytes == 0) return nullptr;
  if (param.writes) return launched.Write(address, param.size_bytes);
  return const_cast<std::byte*>(launched.Read(address, param.size_bytes));
}

class SimtCompiler final : public CudaCompiler {
 public:
  explicit SimtCompiler(CudaSim& sim) : sim_(sim) {}

  absl::StatusOr<std::string> Compile(const CudaLaunch& launch, int) override {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<SimtModule> built, SimtModule::Build({&launch, 1}));
    const std::shared_ptr<const SimtModule> module = std::move(built);
    SimKernel kernel;
    kernel.param_bytes.assign(launch.params.size(), sizeof(CUdeviceptr));
    kernel.accesses = [launch](const SimLaunch& launched) { return DeclaredBy(launch, launched); };
    kernel.run = [launch, module](const SimLaunch& launched) {
      std::vector<void*> params;
      for (size_t i = 0; i < launch.params.size(); ++i) {
        params.push_back(BackingOf(launch.params[i], launched, i));
      }
      const absl::Status status = module->Run(launch, params, SimtOrder::kForward);
      if (status.ok()) return CUDA_SUCCESS;
      std::fprintf(stderr, "%s: %s\n", launch.function.c_str(), status.ToString().c_str());
      return CUDA_ERROR_LAUNCH_FAILED;
    };
    sim_.RegisterKernel(launch.function, std::move(kernel));
    return std::string(static_cast<const char*>(CudaSim::ModuleImage()));
  }

  std::string name() const override { return "simt"; }

 private:
  CudaSim& sim_;
};

}  // namespace

std::unique_ptr<CudaCompiler> CreateSimtCompiler(CudaSim& sim) {
  return std::make_unique<SimtCompiler>(sim);
}

}  // namespace millrace
