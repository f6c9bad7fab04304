// Products of matrices by tiles that stay in registers, for every Highway target. Included once per
// target.
#if defined(MILLRACE_OPS_CPU_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_OPS_CPU_TILE_PRODUCT_INL_H_
#undef MILLRACE_OPS_CPU_TILE_PRODUCT_INL_H_
#else
#define MILLRACE_OPS_CPU_TILE_PRODUCT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows and vectors of columns of a tile: their accumulators, a vector of each column and one
// element spread fill 32 registers, or 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr size_t kTileRows = 8;
#else
inline constexpr size_t kTileRows = 4;
#endif
inline constexpr size_t kMaxTileVectors = 3;

// Strides in elements.
struct MatrixView {
  const float* data;
  int64_t row_stride, column_stride;
};

// out[r][c] = (out[r][c] factor[c] or 0) + sum over i < depth of a(r, i) b[i][c], for `kRows` rows
// of kVectors vectors of columns; rows of b and out are b_stride and out_stride apart. factor null:
// 0.
template <size_t kRows, size_t kVectors>
HWY_INLINE void RowsOfProduct(MatrixView a, const float* HWY_RESTRICT b, int64_t b_stride,
                              int64_t depth, const float* factor, float* HWY_RESTRICT out,
                              int64_t out_stride) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      const float* at = out + static_cast<int64_t>(r) * out_stride + v * lanes;
      sum[r][v] = factor == nullptr ? hn::Zero(d)
                                    : hn::Mul(hn::LoadU(d, at), hn::LoadU(d, factor + v * lanes));
    }
  }
  const float* from = a.data;
  for (int64_t i = 0; i < depth; ++i, from += a.column_stride, b += b_stride) {
    V columns[kVectors];
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, from[static_cast<int64_t>(r) * a.row_stride]);
#pragma GCC unroll 4
      for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, out + static_cast<int64_t>(r) * out_stride + v * lanes);
    }
  }
}

// The same for `rows` rows.
template <size_t kVectors>
HWY_INLINE void TileProduct(MatrixView a, int64_t rows, int64_t depth, const float* b,
                            int64_t b_stride, const float* factor, float* out, int64_t out_stride) {
  const auto step = [&](int64_t count) {
    a.data += count * a.row_stride;
    out += count * out_stride;
    rows -= count;
  };
  constexpr int64_t kRows = kTileRows;
  for (; rows >= kRows; step(kRows)) {
    RowsOfProduct<kRows, kVectors>(a, b, b_stride, depth, factor, out, out_stride);
  }
  if (kRows > 4 && rows >= 4) {
    RowsOfProduct<4, kVectors>(a, b, b_stride, depth, factor, out, out_stride);
    step(4);
  }
  for (; rows > 0; step(1)) {
    RowsOfProduct<1, kVectors>(a, b, b_stride, depth, factor, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_OPS_CPU_TILE_PRODUCT_INL_H_
