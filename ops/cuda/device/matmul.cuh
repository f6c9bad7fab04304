// A product of matrices, in tiles that a block keeps in shared memory: for element types and shapes
// that no library serves, and for machines without one.
#ifndef MILLRACE_OPS_CUDA_DEVICE_MATMUL_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_MATMUL_CUH_

#include "scalar.cuh"

namespace millrace {

// y[batch] = alpha a[batch] b[batch] + beta c, with c the same for all. Strides are in elements; y
// is dense.
struct MatMulShape {
  i64 m = 1, n = 1, k = 1;
  i64 a_row = 0, a_column = 1, b_row = 0, b_column = 1;
  i64 c_row = 0, c_column = 0;
  // Of the result, with the operands' strides.
  int batch_rank = 0;
  i64 batch[8] = {}, a_batch[8] = {}, b_batch[8] = {};
};

inline constexpr int kMatMulTile = 64, kMatMulDepth = 16, kMatMulThreads = 256;

// blockIdx.x counts tiles of n, then of m, then matrices of the batch. c may be null.
template <MatMulShape kShape, typename T>
__device__ inline void MatMul(const T* a, const T* b, const T* c, T* y, f64 alpha, f64 beta) {
  using W = Wide<T>;
  constexpr i64 kTilesM = (kShape.m + kMatMulTile - 1) / kMatMulTile;
  constexpr i64 kTilesN = (kShape.n + kMatMulTile - 1) / kMatMulTile;
  __shared__ W tile_a[kMatMulDepth][kMatMulTile + 4];
  __shared__ W tile_b[kMatMulDepth][kMatMulTile + 4];
  const i64 first_n = static_cast<i64>(blockIdx.x) % kTilesN * kMatMulTile;
  const i64 first_m = static_cast<i64>(blockIdx.x) / kTilesN % kTilesM * kMatMulTile;
  const i64 matrix = static_cast<i64>(blockIdx.x) / (kTilesN * kTilesM);
  i64 rest = matrix;
#pragma unroll
  for (int d = kShape.batch_rank - 1; d >= 0; --d) {
    a += rest % kShape.batch[d] * kShape.a_batch[d];
    b += rest % kShape.batch[d] * kShape.b_batch[d];
    rest /= kShape.batch[d];
  }
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 16 * 4, column = thread % 16 * 4;
  W sums[4][4] = {};
  for (i64 k = 0; k < kShape.k; k += kMatMulDepth) {
#pragma unroll
    for (int i = thread; i < kMatMulTile * kMatMulDepth; i += kMatMulThreads) {
      // Neighbours of a warp read what is contiguous.
      const bool along_k = kShape.a_column == 1, along_n = kShape.b_column == 1;
      const int a_k = along_k ? i % kMatMulDepth : i / kMatMulTile;
      const int a_m = along_k ? i / kMatMulDepth : i % kMatMulTile;
      const int b_k = along_n ? i / kMatMulTile : i % kMatMulDepth;
      const int b_n = along_n ? i % kMatMulTile : i / kMatMulDepth;
      const bool has_a = first_m + a_m < kShape.m && k + a_k < kShape.k;
      const bool has_b = first_n + b_n < kShape.n && k + b_k < kShape.k;
      tile_a[a_k][a_m] =
          has_a ? Convert<W>(a[(first_m + a_m) * kShape.a_row + (k + a_k) * kShape.a_column])
                : W(0);
      tile_b[b_k][b_n] =
          has_b ? Convert<W>(b[(k + b_k) * kShape.b_row + (first_n + b_n) * kShape.b_column])
                : W(0);
    }
    __syncthreads();
#pragma unroll
    for (int at = 0; at < kMatMulDepth; ++at) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] = Add(sums[i][j], Mul(tile_a[at][row + i], tile_b[at][column + j]));
        }
      }
    }
    __syncthreads();
  }
  y += matrix * kShape.m * kShape.n;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 at_m = first_m + row + i, at_n = first_n + column + j;
      if (at_m >= kShape.m || at_n >= kShape.n) continue;
      W sum = sums[i][j];
      if constexpr (kIsFloat<T>) {
        sum *= static_cast<W>(alpha);
        if (c != nullptr) {
          sum += static_cast<W>(beta) * ToNative(c[at_m * kShape.c_row + at_n * kShape.c_column]);
        }
      }
      y[at_m * kShape.n + at_n] = Convert<T>(sum);
    }
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_MATMUL_CUH_
