// One head of one batch of fused.Attention, as its kernel's per-target code takes it.
#ifndef MILLRACE_OPS_CPU_ATTENTION_PART_H_
#define MILLRACE_OPS_CPU_ATTENTION_PART_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ops/attention.h"

namespace millrace {

// Queries of a block and keys of a tile: at most. Blocks on processors with shorter vectors are
// narrower.
inline constexpr int64_t kAttentionWidth = 48, kAttentionKeys = 64;
// Up to so many queries are taken one by one.
inline constexpr int64_t kAttentionFew = 4;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// f32, added to scores; or bool, what is seen.
struct AttentionMask {
  const std::byte* data = nullptr;  // null: none
  bool is_bool = false;

  float At(int64_t index) const {
    if (data == nullptr) return 0;
    if (is_bool) return reinterpret_cast<const uint8_t*>(data)[index] != 0 ? 0 : -kInfinity;
    return reinterpret_cast<const float*>(data)[index];
  }
};

// Strides in elements.
struct AttentionPart {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  float* y = nullptr;
  int64_t q_token = 0, k_token = 0, v_token = 0, y_token = 0;
  AttentionMask mask;
  int64_t mask_query = 0, mask_key = 0;
  int64_t queries = 0, keys = 0, head_size = 0, value_size = 0;
  float scale = 1;
  bool causal = false;
  float* scratch = nullptr;  // the thread's own
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ATTENTION_PART_H_
