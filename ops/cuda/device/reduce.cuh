// Reductions across threads: of a group of lanes within a warp, of a whole block, of the columns of
// a block. Every thread of the block takes part in each, and each gets the result. The order of
// combination is fixed, so results are the same in every run.
#ifndef MILLRACE_OPS_CUDA_DEVICE_REDUCE_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_REDUCE_CUH_

#include "scalar.cuh"

namespace millrace {

// What is reduced: elements of T as Wide<T>. Start: of no elements.
struct SumOf {
  template <typename T>
  __device__ static Wide<T> Start() {
    return 0;
  }
  template <typename W>
  __device__ static W Combine(W a, W b) {
    return Add(a, b);
  }
};
struct ProdOf {
  template <typename T>
  __device__ static Wide<T> Start() {
    return 1;
  }
  template <typename W>
  __device__ static W Combine(W a, W b) {
    return Mul(a, b);
  }
};
struct MaxOf {
  template <typename T>
  __device__ static Wide<T> Start() {
    if constexpr (kIsFloat<T>)
      return -Infinity<Wide<T>>();
    else
      return SmallestInteger<T>();
  }
  template <typename W>
  __device__ static W Combine(W a, W b) {
    return Max(a, b);
  }
};
struct MinOf {
  template <typename T>
  __device__ static Wide<T> Start() {
    if constexpr (kIsFloat<T>)
      return Infinity<Wide<T>>();
    else
      return LargestInteger<T>();
  }
  template <typename W>
  __device__ static W Combine(W a, W b) {
    return Min(a, b);
  }
};

inline constexpr u32 kWholeWarp = 0xffffffffu;

// Over each kLanes (a power of two, at most 32) neighbours of a warp.
template <typename R, int kLanes, typename W>
__device__ inline W ReduceLanes(W value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value = R::Combine(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}

// Over a block of kThreads: 32 times a power of two, at most 1024.
template <typename R, int kThreads, typename W>
__device__ inline W ReduceBlock(W value) {
  constexpr int kWarps = kThreads / 32;
  __shared__ W parts[kWarps];
  value = ReduceLanes<R, 32>(value);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = ReduceLanes<R, kWarps>(parts[threadIdx.x % kWarps]);
  __syncthreads();  // before the next reduction writes
  return value;
}

// Over the kRows threads x, x + kColumns, ... of a block of kRows * kColumns.
template <typename R, int kRows, int kColumns, typename W>
__device__ inline W ReduceColumns(W value) {
  __shared__ W parts[kRows * kColumns];
  parts[threadIdx.x] = value;
  __syncthreads();
  const u32 column = threadIdx.x % kColumns;
  value = parts[column];
#pragma unroll
  for (int row = 1; row < kRows; ++row) value = R::Combine(value, parts[row * kColumns + column]);
  __syncthreads();
  return value;
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_REDUCE_CUH_
