// What the cuda backend can do: its kernel variants for a query, as plain data, answered without a
// GPU and without CUDA. Best first; ops without a kernel get one on the host.
#ifndef MILLRACE_OPS_CUDA_CUDA_TARGET_H_
#define MILLRACE_OPS_CUDA_CUDA_TARGET_H_

#include <optional>
#include <string_view>
#include <vector>

#include "graph/target.h"
#include "ops/cuda/cuda_launch.h"

namespace millrace {

class CudaTarget final : public Target {
 public:
  std::string_view device_kind() const override { return "cuda"; }
  // Empty for unknown ops, for types the op's rules refuse, and for control flow and comm ops.
  std::vector<KernelVariant> Variants(const NodeQuery& query) const override;
};

// What the variant of that name launches for dense operands; nullopt when no family of ours has it.
std::optional<CudaWork> CudaWorkFor(const NodeQuery& query, std::string_view variant);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_TARGET_H_
