// A matrix product with packed weights, as its kernel's per-target code takes it (simd_product.cc).
#ifndef MILLRACE_OPS_CPU_PACKED_PRODUCT_H_
#define MILLRACE_OPS_CPU_PACKED_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/cpu/row_program.h"

namespace millrace {

// Columns of a panel of B: three vectors of the widest kind, a whole number of those of others.
inline constexpr int64_t kPanel = 48;
// Rows of B that stay in L1 while rows of A go by; rows of A whose tile of the result does in L2;
// rows that go through the epilogue together.
inline constexpr int64_t kBlockDepth = 192, kBlockRows = 128, kEpilogueRows = 8;

// Strides in elements.
struct PackedProduct {
  const float* a = nullptr;
  const float* b = nullptr;  // panels
  float* out = nullptr;      // [m, n]
  int64_t m = 0, k = 0, n = 0;
  int64_t a_row_stride = 0, a_k_stride = 0;
  float ones[kPanel] = {};
  const RowStep* steps = nullptr;
  size_t num_steps = 0;
  int result = 0;
  const float* const* operands = nullptr;  // of the epilogue
  float* scratch = nullptr;                // the thread's own
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_PACKED_PRODUCT_H_
