// A matrix product that a library computes, as plain data: one call of cublasLtMatmul.
#ifndef MILLRACE_OPS_CUDA_CUDA_MATMUL_H_
#define MILLRACE_OPS_CUDA_CUDA_MATMUL_H_

#include <cstdint>

#include "graph/types.h"

namespace millrace {

// D[i] = act(alpha A[i] B[i] + beta C + bias), row-major, for each i of the batch. Parameters of
// the launch: A, B, D, workspace; then C, where beta is not 0; then the bias, where there is one.
struct CudaMatMul {
  enum class Activation : uint8_t { kNone, kRelu, kGeluTanh };
  DType dtype = DType::kF32;  // of all; f16, bf16 and f32 are summed up in f32
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;  // stored [k, m], [n, k]
  int64_t batch = 1;
  int64_t a_stride = 0, b_stride = 0;  // from one matrix to the next; D's are dense
  double alpha = 1, beta = 0;          // beta: 0 or with C, of D's shape
  bool has_bias = false;               // [n], added to each row
  Activation activation = Activation::kNone;
  int64_t workspace_bytes = 0;  // the parameter has kWorkspaceAlignment more

  static constexpr int64_t kWorkspaceAlignment = 256;  // that the library wants; plans give less

  bool has_c() const { return beta != 0; }
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_MATMUL_H_
