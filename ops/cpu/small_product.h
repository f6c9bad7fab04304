// One small f32 matrix product without setup: out = alpha a b + beta c (small_matmul.cc).
#ifndef MILLRACE_OPS_CPU_SMALL_PRODUCT_H_
#define MILLRACE_OPS_CPU_SMALL_PRODUCT_H_

#include <cstdint>

namespace millrace {

// Strides in elements. b is [k, n] or, with transpose_b, [n, k]; b and out [m, n] are dense.
struct SmallProduct {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;  // null: none
  float* out = nullptr;      // may be c
  int64_t m = 0, k = 0, n = 0;
  int64_t a_row_stride = 0, a_k_stride = 0;
  int64_t c_row_stride = 0, c_column_stride = 0;  // the latter 0 or 1
  float alpha = 1, beta = 1;
  bool transpose_b = false;
};

using SmallProductFn = void (*)(const SmallProduct& product);

// For this processor.
SmallProductFn FindSmallProduct();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_SMALL_PRODUCT_H_
