// Softmax attention, a block for each query: keys go by in chunks, whose scores lie in shared
// memory; the sums so far are scaled down when a larger score comes (Milakov and Gimelshein, 2018).
#ifndef MILLRACE_OPS_CUDA_DEVICE_ATTENTION_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_ATTENTION_CUH_

#include "reduce.cuh"

namespace millrace {

struct HeadShape {
  i64 batch = 0, head = 0, token = 0;  // strides
};
struct AttentionShape {
  i64 heads = 1, heads_per_kv = 1, queries = 1, keys = 1, head_size = 1, value_size = 1;
  HeadShape q, k, v, y;
  i64 mask_batch = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  bool causal = false;
};

inline constexpr int kAttentionThreads = 128;

// blockIdx.x counts queries, then heads, then batches. `mask` may be null; bools say which keys
// count, numbers are added to the scores.
template <AttentionShape kShape, typename T, typename M>
__device__ inline void Attention(const T* q, const T* k, const T* v, const M* mask, T* y,
                                 f64 scale) {
  using W = Native<T>;
  constexpr i64 kChunk = 256;
  constexpr int kValues =
      static_cast<int>((kShape.value_size + kAttentionThreads - 1) / kAttentionThreads);
  __shared__ W scores[kChunk];
  const i64 query = static_cast<i64>(blockIdx.x) % kShape.queries;
  const i64 head = static_cast<i64>(blockIdx.x) / kShape.queries % kShape.heads;
  const i64 batch = static_cast<i64>(blockIdx.x) / kShape.queries / kShape.heads;
  const i64 kv = head / kShape.heads_per_kv;
  q += batch * kShape.q.batch + head * kShape.q.head + query * kShape.q.token;
  k += batch * kShape.k.batch + kv * kShape.k.head;
  v += batch * kShape.v.batch + kv * kShape.v.head;
  y += batch * kShape.y.batch + head * kShape.y.head + query * kShape.y.token;
  const i64 mask_row =
      batch * kShape.mask_batch + head * kShape.mask_head + query * kShape.mask_query;
  W largest = -Infinity<W>(), total = 0;
  W sums[kValues] = {};
  for (i64 first = 0; first < kShape.keys; first += kChunk) {
    W chunk_largest = -Infinity<W>();
    for (i64 i = threadIdx.x; i < kChunk; i += kAttentionThreads) {
      const i64 key = first + i;
      W score = -Infinity<W>();
      const bool counts = key < kShape.keys && (!kShape.causal || key <= query);
      if (counts) {
        W dot = 0;
        for (i64 d = 0; d < kShape.head_size; ++d) {
          dot += ToNative(q[d]) * ToNative(k[key * kShape.k.token + d]);
        }
        score = dot * static_cast<W>(scale);
        if (mask != nullptr) {
          const M at = mask[mask_row + key * kShape.mask_key];
          if constexpr (kSame<M, bool>) {
            if (!at) score = -Infinity<W>();
          } else {
            score += Convert<W>(at);
          }
        }
      }
      scores[i] = score;
      chunk_largest = Max(chunk_largest, score);
    }
    const W now = Max(largest, ReduceBlock<MaxOf, kAttentionThreads>(chunk_largest));
    const W kept = largest == -Infinity<W>() ? W(0) : Exp(largest - now);
    W chunk_total = 0;
    for (i64 i = threadIdx.x; i < kChunk; i += kAttentionThreads) {
      const W weight = scores[i] == -Infinity<W>() ? W(0) : Exp(scores[i] - now);
      scores[i] = weight;
      chunk_total += weight;
    }
    total = total * kept + ReduceBlock<SumOf, kAttentionThreads>(chunk_total);
    largest = now;
    const i64 last = first + kChunk < kShape.keys ? kChunk : kShape.keys - first;
#pragma unroll
    for (int n = 0; n < kValues; ++n) {
      const i64 d = n * kAttentionThreads + threadIdx.x;
      sums[n] *= kept;
      if (d >= kShape.value_size) continue;
      for (i64 i = 0; i < last; ++i) {
        sums[n] += scores[i] * ToNative(v[(first + i) * kShape.v.token + d]);
      }
    }
    __syncthreads();  // before the scores of the next chunk
  }
#pragma unroll
  for (int n = 0; n < kValues; ++n) {
    const i64 d = n * kAttentionThreads + threadIdx.x;
    if (d < kShape.value_size) y[d] = Convert<T>(kShape.keys == 0 ? W(0) : sums[n] / total);
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_ATTENTION_CUH_
