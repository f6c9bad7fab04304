// A family of our own kernels: one way to compute some ops on a GPU, as data (cuda_launch.h). The
// ordered list of families is the whole of kernel choice: Target and KernelLibrary both walk it, so
// they cannot disagree.
#ifndef MILLRACE_OPS_CUDA_CUDA_FAMILY_H_
#define MILLRACE_OPS_CUDA_CUDA_FAMILY_H_

#include <optional>
#include <span>
#include <string_view>

#include "ops/cuda/cuda_launch.h"
#include "ops/kernel_query.h"

namespace millrace {

struct CudaFamily {
  std::string_view name;  // of its variants
  // What it launches for dense operands; nullopt when the family does not take the query, which is
  // as NormalizeQuery leaves it. Functions are named after the op.
  std::optional<CudaWork> (*work)(const NodeQuery& query);
};

// Best first.
std::span<const CudaFamily> CudaFamilies();

// "softmax", "grad_conv_input": of an op, for names of functions.
std::string FunctionNameOf(std::string_view op);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_FAMILY_H_
