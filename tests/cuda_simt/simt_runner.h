// Runs what a kernel of the cuda backend launches on tensors of the host, by the SIMT shim.
#ifndef MILLRACE_TESTS_CUDA_SIMT_SIMT_RUNNER_H_
#define MILLRACE_TESTS_CUDA_SIMT_SIMT_RUNNER_H_

#include <span>
#include <vector>

#include "graph/op_traits.h"
#include "graph/target.h"
#include "graph/tensor.h"
#include "ops/cuda/cuda_launch.h"
#include "tests/cuda_simt/simt_module.h"

namespace millrace {

struct SimtRunOptions {
  SimtOrder order = SimtOrder::kForward;
  InPlacePair in_place = {-1, -1};  // the output that lies on the input's bytes; -1: none
  int64_t misaligned_bytes = 0;     // operands begin so many bytes after a multiple of 64
};

// Results and scratch hold garbage before; what lies beyond each operand is checked afterwards.
absl::StatusOr<std::vector<Tensor>> RunSimt(const SimtModule& module, const NodeQuery& query,
                                            const CudaWork& work, std::span<const Tensor> inputs,
                                            const SimtRunOptions& options = {});

// By the op's reference; outputs that are omitted have no data.
absl::StatusOr<std::vector<Tensor>> ReferenceOf(const NodeQuery& query,
                                                std::span<const Tensor> inputs);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIMT_SIMT_RUNNER_H_
