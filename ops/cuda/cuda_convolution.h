// A convolution that a library computes, as plain data: one call of cuDNN.
#ifndef MILLRACE_OPS_CUDA_CUDA_CONVOLUTION_H_
#define MILLRACE_OPS_CUDA_CUDA_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "graph/types.h"

namespace millrace {

// Dense [N, C, spatial...] with two or three spatial dims. Parameters of the launch: two operands
// and the result (forward: X, W, Y; input: dY, W, dX; weight: X, dY, dW), workspace; then, forward
// only, the bias and the residual, where there are any: Y = act(conv(X, W) + residual + bias).
struct CudaConvolution {
  enum class Kind : uint8_t { kForward, kInput, kWeight };
  Kind kind = Kind::kForward;
  DType dtype = DType::kF32;  // of all; f16 and bf16 are summed up in f32
  std::vector<int64_t> x, w, y;
  std::vector<int64_t> pads, strides, dilations;  // by spatial dim; pads the same on both sides
  int64_t groups = 1;
  bool has_bias = false, has_residual = false, relu = false;
  int64_t workspace_bytes = 0;  // the parameter has kWorkspaceAlignment more

  static constexpr int64_t kWorkspaceAlignment = 256;
  bool is_fused() const { return has_bias; }  // so must it be with a residual or Relu
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_CONVOLUTION_H_
