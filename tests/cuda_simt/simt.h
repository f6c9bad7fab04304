// What kernel sources see instead of CUDA when a host compiler compiles them (simt_module.cc puts
// it before them): one block at a time, its threads being fibers that simt_block.cc runs in turn.
// Only what the sources of ops/cuda use.
#ifndef MILLRACE_TESTS_CUDA_SIMT_SIMT_H_
#define MILLRACE_TESTS_CUDA_SIMT_SIMT_H_

#include <cmath>
#include <cstring>
#include <utility>

#include "tests/cuda_simt/simt_api.h"

#define __global__
#define __device__
#define __shared__ static  // blocks run one after another
#define __launch_bounds__(threads)
#define threadIdx (simt_api->self()->thread_index)
#define blockIdx (simt_api->self()->block_index)
#define blockDim (simt_api->self()->block_size)
#define gridDim (simt_api->self()->grid_size)

extern "C" {
const millrace::SimtApi* simt_api = nullptr;
void simt_bind(const millrace::SimtApi* api) { simt_api = api; }
}

inline void __syncthreads() { simt_api->barrier(); }

template <typename T>
T simt_shuffle(unsigned mask, T value, unsigned source) {
  T result;
  simt_api->exchange(mask, &value, &result, sizeof(T), source);
  return result;
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int step) {
  return simt_shuffle(mask, value, threadIdx.x % 32 ^ static_cast<unsigned>(step));
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  unsigned votes = vote ? 1u << threadIdx.x % 32 : 0;
  for (int step = 1; step < 32; step *= 2) votes |= __shfl_xor_sync(mask, votes, step);
  return votes;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
[[noreturn]] inline void __trap() { __builtin_trap(); }

inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
// Calls a kernel with addresses for its parameters.
template <typename... Params, std::size_t... kIndex>
void simt_call(void (*kernel)(Params...), void* const* params, std::index_sequence<kIndex...>) {
  kernel(static_cast<Params>(params[kIndex])...);
}
template <typename... Params>
void simt_call(void (*kernel)(Params...), void* const* params) {
  simt_call(kernel, params, std::index_sequence_for<Params...>());
}

#endif  // MILLRACE_TESTS_CUDA_SIMT_SIMT_H_
