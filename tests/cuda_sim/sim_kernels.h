// Kernels for simulated cuda devices: every op's reference, run as a kernel of the simulated driver
// on device memory, so that what it reads and writes is checked.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIM_KERNELS_H_
#define MILLRACE_TESTS_CUDA_SIM_SIM_KERNELS_H_

#include <memory>
#include <string_view>
#include <vector>

#include "graph/target.h"
#include "runtime/kernel.h"
#include "tests/cuda_sim/cuda_sim.h"

namespace millrace {

// Variant "reference" for every op that has a reference kernel and is not for HostCall; operands
// may have strides. The library outlives its kernels, and the work of their launches; the simulator
// outlives both.
std::unique_ptr<KernelLibrary> CreateSimKernelLibrary(CudaSim& sim);

// What that library offers. Ops for HostCall are offered too, on the host, from the cpu's reference
// kernels.
class SimTarget : public Target {
 public:
  std::string_view device_kind() const override { return "cuda"; }
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIM_SIM_KERNELS_H_
