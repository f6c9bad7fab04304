// What the f32 attention kernel does with one tile of scores, for every Highway target. Included
// once per target. A tile is kept with queries along its rows, keys (or elements of a head) down:
// element (r, q) at [r * width + q], width a whole number of vectors. So a vector holds one key for
// many queries; the softmax of each query runs down a lane and never across lanes.
#if defined(MILLRACE_OPS_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_OPS_CPU_ATTENTION_TILE_INL_H_
#undef MILLRACE_OPS_CPU_ATTENTION_TILE_INL_H_
#else
#define MILLRACE_OPS_CPU_ATTENTION_TILE_INL_H_
#endif

#include <cstdint>

#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// How far the softmax of a tile's queries has come, a vector's lane for each.
struct RunningSoftmax {
  float* largest;  // of the scores so far
  float* sum;      // of the weights so far, relative to `largest`
  float* factor;   // what weights of earlier tiles are worth now
};

// Turns a tile of scores, `rows` keys, into weights relative to the largest score so far.
// key_mask[r], tile_mask[r][q]: added before; null: nothing. A query that has seen nothing but
// -inf has weights and sum 0.
template <size_t kVectors>
HWY_NOINLINE void SoftmaxTile(float* HWY_RESTRICT scores, int64_t rows, const float* key_mask,
                              const float* tile_mask, const RunningSoftmax& running) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), width = kVectors * lanes;
  V largest[kVectors], base[kVectors], sum[kVectors];
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) largest[v] = hn::LoadU(d, running.largest + v * lanes);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + static_cast<size_t>(r) * width;
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      auto x = hn::LoadU(d, row + v * lanes);
      if (tile_mask != nullptr) {
        x = hn::Add(x, hn::LoadU(d, tile_mask + static_cast<size_t>(r) * width + v * lanes));
        hn::StoreU(x, d, row + v * lanes);
      } else if (key_mask != nullptr) {
        x = hn::Add(x, hn::Set(d, key_mask[r]));
        hn::StoreU(x, d, row + v * lanes);
      }
      largest[v] = hn::Max(largest[v], x);
    }
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) {
    const auto before = hn::LoadU(d, running.largest + v * lanes);
    const auto nothing = hn::Eq(largest[v], hn::Neg(hn::Inf(d)));
    base[v] = hn::IfThenZeroElse(nothing, largest[v]);
    const auto factor = ExpOfNegative(d, hn::Sub(before, base[v]));
    hn::StoreU(factor, d, running.factor + v * lanes);
    hn::StoreU(largest[v], d, running.largest + v * lanes);
    sum[v] = hn::Mul(factor, hn::LoadU(d, running.sum + v * lanes));
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + static_cast<size_t>(r) * width;
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      const auto weight = ExpOfNegative(d, hn::Sub(hn::LoadU(d, row + v * lanes), base[v]));
      sum[v] = hn::Add(sum[v], weight);
      hn::StoreU(weight, d, row + v * lanes);
    }
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, running.sum + v * lanes);
}

#if HWY_TARGET != HWY_SCALAR
// 4 x 4: to[c * to_stride + r] = from[r * from_stride + c] * scale[c], or *scale.
template <bool kScaleEach>
HWY_INLINE void Transpose4(const float* from, int64_t from_stride, float* to, int64_t to_stride,
                           const float* scale) {
  const hn::CappedTag<float, 4> d;
  const hn::Repartition<uint64_t, decltype(d)> pairs;
  const auto scales = kScaleEach ? hn::LoadU(d, scale) : hn::Set(d, *scale);
  const auto r0 = hn::Mul(hn::LoadU(d, from), scales);
  const auto r1 = hn::Mul(hn::LoadU(d, from + from_stride), scales);
  const auto r2 = hn::Mul(hn::LoadU(d, from + 2 * from_stride), scales);
  const auto r3 = hn::Mul(hn::LoadU(d, from + 3 * from_stride), scales);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
}
#endif

// to[c * to_stride + r] = from[r * from_stride + c] * scale[c]; without kScaleEach *scale for all.
template <bool kScaleEach>
HWY_INLINE void ScaledTranspose(const float* from, int64_t from_stride, int64_t rows,
                                int64_t columns, float* to, int64_t to_stride, const float* scale) {
  const auto element = [&](int64_t r, int64_t c) {
    to[c * to_stride + r] = from[r * from_stride + c] * (kScaleEach ? scale[c] : *scale);
  };
  int64_t whole_rows = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_rows = rows / 4 * 4;
  const int64_t whole_columns = columns / 4 * 4;
  for (int64_t r = 0; r < whole_rows; r += 4) {
    for (int64_t c = 0; c < whole_columns; c += 4) {
      Transpose4<kScaleEach>(from + r * from_stride + c, from_stride, to + c * to_stride + r,
                             to_stride, scale + (kScaleEach ? c : 0));
    }
    for (int64_t c = whole_columns; c < columns; ++c) {
      for (int64_t i = r; i < r + 4; ++i) element(i, c);
    }
  }
#endif
  for (int64_t r = whole_rows; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) element(r, c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_OPS_CPU_ATTENTION_TILE_INL_H_
