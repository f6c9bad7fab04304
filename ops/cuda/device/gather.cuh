// Elements picked by index, their gradient, and the index of a row's extremum. Indices count from
// the end when negative; one that is out of range stops the kernel.
#ifndef MILLRACE_OPS_CUDA_DEVICE_GATHER_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_GATHER_CUH_

#include "reduce.cuh"

namespace millrace {

template <typename I>
__device__ inline i64 InRange(I index, i64 size) {
  const i64 at = static_cast<i64>(index);
  if (at < -size || at >= size) __trap();
  return at < 0 ? at + size : at;
}

// `data` as [outer, size, inner], `indices` as [count].
struct GatherShape {
  i64 outer = 1, size = 1, inner = 1, count = 1;
};

// out[outer, count, inner]; kWidth, which divides `inner`, elements a thread.
template <GatherShape kShape, int kWidth, typename T, typename I>
__device__ inline void Gather(const T* data, const I* indices, T* out) {
  constexpr i64 kPacks = kShape.inner / kWidth;
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= kShape.outer * kShape.count * kPacks) return;
  const bool aligned = IsAligned(data, sizeof(T) * kWidth) && IsAligned(out, sizeof(T) * kWidth);
  const i64 at = InRange(indices[i / kPacks % kShape.count], kShape.size);
  const i64 row = i / kPacks / kShape.count * kShape.size + at;
  const T* from = data + (row * kPacks + i % kPacks) * kWidth;
  Store(out + i * kWidth, Load<kWidth>(from, aligned), aligned);
}

// dx[outer, size, inner] = the sum of dy[outer, count, inner] where the index is that row's, in the
// order of the indices. A block for a row and 256 elements of it: it looks through all indices.
template <GatherShape kShape, typename T, typename I>
__device__ inline void GatherGradient(const T* dy, const I* indices, T* dx) {
  constexpr i64 kParts = (kShape.inner + 255) / 256;
  __shared__ u32 found[8];  // by warp: which of its threads' indices are this row
  const i64 row = static_cast<i64>(blockIdx.x) / kParts;
  const i64 inner = static_cast<i64>(blockIdx.x) % kParts * 256 + threadIdx.x;
  const i64 outer = row / kShape.size, own = row % kShape.size;
  Native<T> sum = 0;
  for (i64 first = 0; first < kShape.count; first += 256) {
    const i64 i = first + threadIdx.x;
    const bool match = i < kShape.count && InRange(indices[i], kShape.size) == own;
    const u32 votes = __ballot_sync(kWholeWarp, match);
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = votes;
    __syncthreads();
    for (int warp = 0; warp < 8; ++warp) {
      for (u32 left = found[warp]; left != 0; left &= left - 1) {
        const i64 at = first + warp * 32 + __ffs(static_cast<int>(left)) - 1;
        if (inner < kShape.inner) {
          sum += ToNative(dy[(outer * kShape.count + at) * kShape.inner + inner]);
        }
      }
    }
    __syncthreads();
  }
  if (inner < kShape.inner) dx[row * kShape.inner + inner] = Convert<T>(sum);
}

// GatherElements: out has the shape of the indices; the index stands in for that along an axis.
struct ElementsShape {
  int rank = 1, axis = 0;
  i64 count = 1, size = 1;  // of the indices; of data along the axis
  i64 dims[8] = {}, strides[8] = {};  // of the indices; of data
};

template <ElementsShape kShape, typename T, typename I>
__device__ inline void GatherElements(const T* data, const I* indices, T* out) {
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= kShape.count) return;
  i64 rest = i, from = 0;
#pragma unroll
  for (int d = kShape.rank - 1; d >= 0; --d) {
    const i64 own = rest % kShape.dims[d];
    rest /= kShape.dims[d];
    from += (d == kShape.axis ? InRange(indices[i], kShape.size) : own) * kShape.strides[d];
  }
  out[i] = data[from];
}

// GatherND: a tuple of `length` coordinates names a slice of `unit` elements of its batch.
struct TuplesShape {
  i64 tuples = 1, tuples_per_batch = 1, batch_stride = 0, unit = 1;
  int length = 1;
  i64 sizes[8] = {}, strides[8] = {};  // of data, by coordinate
};

template <TuplesShape kShape, typename T, typename I>
__device__ inline void GatherTuples(const T* data, const I* indices, T* out) {
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= kShape.tuples * kShape.unit) return;
  const i64 tuple = i / kShape.unit;
  i64 from = tuple / kShape.tuples_per_batch * kShape.batch_stride + i % kShape.unit;
#pragma unroll
  for (int k = 0; k < kShape.length; ++k) {
    from += InRange(indices[tuple * kShape.length + k], kShape.sizes[k]) * kShape.strides[k];
  }
  out[i] = data[from];
}

// Where the largest or smallest of each row of [outer, size, inner] is: the first of equals or the
// last; NaN goes before any number. A warp for each row.
template <GatherShape kShape, bool kLargest, bool kLast, typename T>
__device__ inline void ExtremumIndex(const T* x, i64* out) {
  const i64 lane = threadIdx.x % 32;
  const i64 place = static_cast<i64>(blockIdx.x) * 8 + threadIdx.x / 32;
  const bool active = place < kShape.outer * kShape.inner;
  const i64 row = active ? place : 0;
  const T* from = x + row / kShape.inner * kShape.size * kShape.inner + row % kShape.inner;
  const auto goes_first = [](Native<T> a, Native<T> b) {
    return (kLargest ? a > b : a < b) || (a != a && b == b);
  };
  // Whether a at index i beats b at index j.
  const auto wins = [&](Native<T> a, i64 i, Native<T> b, i64 j) {
    if (j < 0) return true;
    if (i < 0) return false;
    if (goes_first(a, b)) return true;
    if (goes_first(b, a)) return false;
    return kLast ? i > j : i < j;
  };
  Native<T> best = 0;
  i64 at = -1;
  for (i64 i = lane; i < kShape.size; i += 32) {
    const Native<T> value = ToNative(from[i * kShape.inner]);
    if (wins(value, i, best, at)) {
      best = value;
      at = i;
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const Native<T> other = static_cast<Native<T>>(
        __shfl_xor_sync(kWholeWarp, static_cast<Wide<T>>(best), step));
    const i64 other_at = __shfl_xor_sync(kWholeWarp, at, step);
    if (wins(other, other_at, best, at)) {
      best = other;
      at = other_at;
    }
  }
  if (active && lane == 0) out[place] = at;
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_GATHER_CUH_
