// The kernel libraries of the cpu backend. Operands are dense and in host memory. A kernel runs
// with the request's team on the calling thread; see ops/cpu/README.md for what there is.
#ifndef MILLRACE_OPS_CPU_CPU_KERNELS_H_
#define MILLRACE_OPS_CPU_CPU_KERNELS_H_

#include <memory>

#include "runtime/kernel.h"

namespace millrace {

// Every variant that CpuTarget offers.
std::unique_ptr<KernelLibrary> CreateCpuKernelLibrary();

// The "reference" variants only: for HostCall on any device, and as the yardstick of tests. The
// only kernels that take true shapes (KernelRequest::true_shapes).
std::unique_ptr<KernelLibrary> CreateReferenceKernelLibrary();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_CPU_KERNELS_H_
