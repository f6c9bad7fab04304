// Counter-based random numbers (graph/weights.h): Philox4x32-10 with the seed as key and (block,
// step) as counter. Bits are those that the CPU gives.
#ifndef MILLRACE_OPS_CUDA_DEVICE_RANDOM_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_RANDOM_CUH_

#include "scalar.cuh"

namespace millrace {

struct RandomWords {
  u32 at[4];
};

__device__ inline RandomWords RandomBlock(u64 seed, u64 block, u64 step) {
  RandomWords c = {{static_cast<u32>(block), static_cast<u32>(block >> 32), static_cast<u32>(step),
                    static_cast<u32>(step >> 32)}};
  u32 key0 = static_cast<u32>(seed), key1 = static_cast<u32>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 a = static_cast<u64>(0xD2511F53u) * c.at[0];
    const u64 b = static_cast<u64>(0xCD9E8D57u) * c.at[2];
    c = {{static_cast<u32>(b >> 32) ^ c.at[1] ^ key0, static_cast<u32>(b),
          static_cast<u32>(a >> 32) ^ c.at[3] ^ key1, static_cast<u32>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// In [0, 1), with 24 bits.
__device__ inline f32 ToUniform(u32 word) { return static_cast<f32>(word >> 8) * 0x1p-24f; }

// Box-Muller; `sine`: the second of the pair.
__device__ inline f32 ToNormal(u32 a, u32 b, bool sine) {
  const f64 u = (static_cast<f64>(a >> 8) + 1) * 0x1p-24;
  const f64 radius = sqrt(-2 * log(u));
  const f64 angle = 2 * 3.14159265358979323846 * 0x1p-24 * static_cast<f64>(b >> 8);
  return static_cast<f32>(radius * (sine ? sin(angle) : cos(angle)));
}

__device__ inline u64 StepOf(const i64* step) {
  return step == nullptr ? 0 : static_cast<u64>(*step);
}

// A thread for each four elements. Operands but x may be null, and so may the results.
template <typename T, typename R>
__device__ inline void Dropout(const T* x, const R* ratio, const bool* training, const i64* step,
                               T* y, bool* mask, i64 count, u64 seed) {
  const i64 block = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (block * 4 >= count) return;
  const bool drops = training != nullptr && *training;
  const f64 share = ratio == nullptr ? 0.5 : Convert<f64>(*ratio);
  const f64 scale = drops ? 1 / (1 - share) : 1;
  const RandomWords words = RandomBlock(seed, static_cast<u64>(block), StepOf(step));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const i64 i = block * 4 + k;
    if (i >= count) break;
    const bool stays = !drops || static_cast<f64>(ToUniform(words.at[k])) >= share;
    if (y != nullptr) y[i] = stays ? Convert<T>(Convert<f64>(x[i]) * scale) : Convert<T>(0.0f);
    if (mask != nullptr) mask[i] = stays;
  }
}

// offset + scale * element i of the stream, uniform or normal.
template <bool kNormal, typename T>
__device__ inline void Fill(const i64* step, T* y, i64 count, u64 seed, f64 offset, f64 scale) {
  const i64 block = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (block * 4 >= count) return;
  const RandomWords words = RandomBlock(seed, static_cast<u64>(block), StepOf(step));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const i64 i = block * 4 + k;
    if (i >= count) break;
    const f32 value = kNormal ? ToNormal(words.at[k / 2 * 2], words.at[k / 2 * 2 + 1], k % 2 == 1)
                              : ToUniform(words.at[k]);
    y[i] = Convert<T>(offset + scale * static_cast<f64>(value));
  }
}

template <typename P, typename T>
__device__ inline void Bernoulli(const P* probability, const i64* step, T* y, i64 count,
                                 u64 seed) {
  const i64 block = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (block * 4 >= count) return;
  const RandomWords words = RandomBlock(seed, static_cast<u64>(block), StepOf(step));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const i64 i = block * 4 + k;
    if (i >= count) break;
    const bool drawn = static_cast<f64>(ToUniform(words.at[k])) < Convert<f64>(probability[i]);
    y[i] = Convert<T>(drawn ? 1.0f : 0.0f);
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_RANDOM_CUH_
