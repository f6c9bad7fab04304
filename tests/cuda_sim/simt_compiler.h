// Kernel sources for the simulated driver: compiled by the host's compiler, run by the SIMT shim,
// on the memory of the simulated GPU. Launches declare what their parameters say they touch.
#ifndef MILLRACE_TESTS_CUDA_SIM_SIMT_COMPILER_H_
#define MILLRACE_TESTS_CUDA_SIM_SIMT_COMPILER_H_

#include <memory>

#include "ops/cuda/cuda_compiler.h"
#include "tests/cuda_sim/cuda_sim.h"

namespace millrace {

// `sim` outlives it, and the work of what it compiled.
std::unique_ptr<CudaCompiler> CreateSimtCompiler(CudaSim& sim);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIM_SIMT_COMPILER_H_
