// fused.Attention on f32: online softmax over tiles (Milakov and Gimelshein, 2018; Dao et al.,
// FlashAttention, 2022). A block of queries goes over the keys tile by tile and keeps, per query,
// the largest score, the sum of the weights and the weighted sum of V so far; when a tile has a
// larger score, what was kept is scaled down. Scores never leave the cache.
//
// Blocks are kept transposed, queries along the lanes (attention_tile-inl.h): Q^T and the sum Y^T
// are copied in and out once a block, K and V are read as they lie, an element at a time, whatever
// their layout; nothing is packed and no sum crosses lanes. O(queries keys head), scratch of
// O(head) per thread.
//
// A few queries (a decoding step has one) would leave lanes idle and are bound by the memory that
// K and V take: they go one by one, with dot products along the head.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_attention.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/attention_part.h"
#include "ops/cpu/attention_tile-inl.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// Where a block keeps what: slices of the thread's scratch.
struct BlockScratch {
  float *queries, *sums, *scores, *tile_mask, *key_mask;
  RunningSoftmax running;
};

HWY_INLINE BlockScratch Slice(const AttentionPart& p) {
  const int64_t width = kAttentionWidth;
  BlockScratch s;
  float* at = p.scratch;
  const auto take = [&at](int64_t count) {
    float* begin = at;
    at += count;
    return begin;
  };
  s.queries = take(p.head_size * width);
  s.sums = take(p.value_size * width);
  s.scores = take(kAttentionKeys * width);
  s.tile_mask = take(kAttentionKeys * width);
  s.key_mask = take(kAttentionKeys);
  s.running = {take(width), take(width), take(width)};
  return s;
}

// The mask of keys [first, first + count) for all queries alike.
HWY_INLINE void FillKeyMask(const AttentionPart& p, int64_t first, int64_t count, float* out) {
  for (int64_t j = 0; j < count; ++j) out[j] = p.mask.At((first + j) * p.mask_key);
}

// The mask of a tile, with what is hidden from its queries as -inf.
template <size_t kVectors>
HWY_INLINE void FillTileMask(const AttentionPart& p, int64_t query, int64_t queries, int64_t first,
                             int64_t count, float* out) {
  const int64_t width = static_cast<int64_t>(kVectors * hn::Lanes(hn::ScalableTag<float>()));
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t row = (query + i) * p.mask_query;
    const int64_t seen = p.causal ? query + i - first + 1 : count;
    for (int64_t j = 0; j < count; ++j) {
      out[j * width + i] = j < seen ? p.mask.At(row + (first + j) * p.mask_key) : -kInfinity;
    }
  }
}

// `queries` queries from `query` on, at most kVectors vectors of them.
template <size_t kVectors>
void Block(const AttentionPart& p, int64_t query, int64_t queries) {
  const int64_t width = static_cast<int64_t>(kVectors * hn::Lanes(hn::ScalableTag<float>()));
  const BlockScratch s = Slice(p);
  std::fill(s.queries, s.queries + p.head_size * width, 0.0f);  // lanes without a query
  std::fill(s.tile_mask, s.tile_mask + kAttentionKeys * width, 0.0f);
  ScaledTranspose<false>(p.q + query * p.q_token, p.q_token, queries, p.head_size, s.queries, width,
                         &p.scale);
  std::fill(s.running.largest, s.running.largest + width, -kInfinity);
  std::fill(s.running.sum, s.running.sum + width, 0.0f);
  const int64_t keys = p.causal ? std::min(p.keys, query + queries) : p.keys;
  for (int64_t first = 0; first < keys; first += kAttentionKeys) {
    const int64_t count = std::min<int64_t>(kAttentionKeys, keys - first);
    const bool hides = p.causal && first + count > query + 1;
    const bool by_query = hides || (p.mask.data != nullptr && p.mask_query != 0);
    const bool by_key = p.mask.data != nullptr && !by_query;
    if (by_query) FillTileMask<kVectors>(p, query, queries, first, count, s.tile_mask);
    if (by_key) FillKeyMask(p, first, count, s.key_mask);
    TileProduct<kVectors>({p.k + first * p.k_token, p.k_token, 1}, count, p.head_size, s.queries,
                          width, nullptr, s.scores, width);
    SoftmaxTile<kVectors>(s.scores, count, by_key ? s.key_mask : nullptr,
                          by_query ? s.tile_mask : nullptr, s.running);
    TileProduct<kVectors>({p.v + first * p.v_token, 1, p.v_token}, p.value_size, count, s.scores,
                          width, first == 0 ? nullptr : s.running.factor, s.sums, width);
  }
  for (int64_t i = 0; i < queries; ++i) s.running.sum[i] = 1 / s.running.sum[i];
  ScaledTranspose<true>(s.sums, width, p.value_size, queries, p.y + query * p.y_token, p.y_token,
                        s.running.sum);
}

// scores[j] = q . k[j] for `count` keys.
HWY_INLINE void DotProducts(const float* q, const float* k, int64_t stride, int64_t count,
                            int64_t size, float* scores) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = size / lanes * lanes;
  const size_t rest = static_cast<size_t>(size - whole);
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* k0 = k + j * stride;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const auto step = [&](int64_t i, auto load) HWY_ATTR {
      const auto x = load(q + i);
      s0 = hn::MulAdd(x, load(k0 + i), s0);
      s1 = hn::MulAdd(x, load(k0 + stride + i), s1);
      s2 = hn::MulAdd(x, load(k0 + 2 * stride + i), s2);
      s3 = hn::MulAdd(x, load(k0 + 3 * stride + i), s3);
    };
    for (int64_t i = 0; i < whole; i += lanes) {
      step(i, [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); });
    }
    if (rest > 0) step(whole, [&](const float* at) HWY_ATTR { return LoadFirst(d, at, rest); });
    scores[j] = hn::GetLane(hn::SumOfLanes(d, s0));
    scores[j + 1] = hn::GetLane(hn::SumOfLanes(d, s1));
    scores[j + 2] = hn::GetLane(hn::SumOfLanes(d, s2));
    scores[j + 3] = hn::GetLane(hn::SumOfLanes(d, s3));
  }
  for (; j < count; ++j) {
    auto sum = hn::Zero(d);
    for (int64_t i = 0; i < whole; i += lanes) {
      sum = hn::MulAdd(hn::LoadU(d, q + i), hn::LoadU(d, k + j * stride + i), sum);
    }
    if (rest > 0) {
      sum = hn::MulAdd(LoadFirst(d, q + whole, rest), LoadFirst(d, k + j * stride + whole, rest),
                       sum);
    }
    scores[j] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// sums = sums factor + weights . v, `size` elements, over `count` keys.
HWY_INLINE void AddWeighted(const float* weights, const float* v, int64_t stride, int64_t count,
                            int64_t size, float factor, float* sums) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    const auto f = hn::Set(d, factor);
    auto s0 = hn::Mul(hn::LoadU(d, sums + i), f), s1 = hn::Mul(hn::LoadU(d, sums + i + lanes), f);
    auto s2 = hn::Mul(hn::LoadU(d, sums + i + 2 * lanes), f);
    auto s3 = hn::Mul(hn::LoadU(d, sums + i + 3 * lanes), f);
    const float* from = v + i;
    for (int64_t j = 0; j < count; ++j, from += stride) {
      const auto w = hn::Set(d, weights[j]);
      s0 = hn::MulAdd(w, hn::LoadU(d, from), s0);
      s1 = hn::MulAdd(w, hn::LoadU(d, from + lanes), s1);
      s2 = hn::MulAdd(w, hn::LoadU(d, from + 2 * lanes), s2);
      s3 = hn::MulAdd(w, hn::LoadU(d, from + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, sums + i);
    hn::StoreU(s1, d, sums + i + lanes);
    hn::StoreU(s2, d, sums + i + 2 * lanes);
    hn::StoreU(s3, d, sums + i + 3 * lanes);
  }
  for (; i < size; i += lanes) {
    const Span span{static_cast<size_t>(std::min(lanes, size - i))};
    auto sum = hn::Mul(span.Load(sums + i), hn::Set(d, factor));
    for (int64_t j = 0; j < count; ++j) {
      sum = hn::MulAdd(hn::Set(d, weights[j]), span.Load(v + j * stride + i), sum);
    }
    span.Store(sum, sums + i);
  }
}

// One query; its sums are kept in the result.
HWY_INLINE void OneQuery(const AttentionPart& p, int64_t query) {
  const hn::ScalableTag<float> d;
  float* scores = p.scratch;
  float* q = scores + kAttentionKeys;
  float* y = p.y + query * p.y_token;
  std::fill(y, y + p.value_size, 0.0f);
  const auto scale = hn::Set(d, p.scale);
  UnaryRow(p.q + query * p.q_token, q, static_cast<size_t>(p.head_size),
           [&](auto x) HWY_ATTR { return hn::Mul(x, scale); });
  float largest = -kInfinity;
  double sum = 0;
  const int64_t keys = p.causal ? std::min(p.keys, query + 1) : p.keys;
  for (int64_t first = 0; first < keys; first += kAttentionKeys) {
    const int64_t count = std::min<int64_t>(kAttentionKeys, keys - first);
    DotProducts(q, p.k + first * p.k_token, p.k_token, count, p.head_size, scores);
    if (p.mask.data != nullptr) {
      const int64_t row = query * p.mask_query;
      for (int64_t j = 0; j < count; ++j) scores[j] += p.mask.At(row + (first + j) * p.mask_key);
    }
    const float before = largest;
    largest = std::max(before, RowMax(scores, static_cast<size_t>(count)));
    const float base = largest == -kInfinity ? 0 : largest;
    const auto bases = hn::Set(d, base);
    UnaryRow(scores, scores, static_cast<size_t>(count),
             [&](auto x) HWY_ATTR { return ExpOfNegative(d, hn::Sub(x, bases)); });
    const float factor = std::exp(before - base);
    sum = sum * static_cast<double>(factor) +
          RowSum(scores, static_cast<size_t>(count), [](auto x) HWY_ATTR { return x; });
    AddWeighted(scores, p.v + first * p.v_token, p.v_token, count, p.value_size, factor, y);
  }
  const auto inverse = hn::Set(d, static_cast<float>(1 / sum));
  UnaryRow(y, y, static_cast<size_t>(p.value_size),
           [&](auto x) HWY_ATTR { return hn::Mul(x, inverse); });
}

void AttendPart(const AttentionPart& p, int64_t query, int64_t queries) {
  if (p.keys == 0) {
    for (int64_t i = query; i < query + queries; ++i) {
      std::fill(p.y + i * p.y_token, p.y + i * p.y_token + p.value_size, 0.0f);
    }
    return;
  }
  if (p.queries <= kAttentionFew) {
    for (int64_t i = query; i < query + queries; ++i) OneQuery(p, i);
    return;
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t widest = std::min<int64_t>(kMaxTileVectors, kAttentionWidth / lanes);
  for (int64_t done = 0; done < queries;) {
    const int64_t left = queries - done, count = std::min(left, widest * lanes);
    switch ((count + lanes - 1) / lanes) {
      case 1:
        Block<1>(p, query + done, count);
        break;
      case 2:
        Block<2>(p, query + done, count);
        break;
      default:
        Block<3>(p, query + done, count);
    }
    done += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(AttendPart);
using AttendFn = void (*)(const AttentionPart& part, int64_t query, int64_t queries);

// Beyond that, scratch would be large for what it gains.
constexpr int64_t kMaxHeadSize = 4096;

int64_t ScratchFloats(const AttentionForm& form) {
  return (form.head_size + form.value_size + 2 * kAttentionKeys + 3) * kAttentionWidth +
         kAttentionKeys;
}

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(AttendFn function, const AttentionForm& form, bool bool_mask, int threads)
      : function_(function), form_(form), bool_mask_(bool_mask), threads_(threads) {
    blocks_ = (form.queries + kAttentionWidth - 1) / kAttentionWidth;
  }

  absl::Status Run(const KernelArgs& args) override {
    const double size = static_cast<double>(form_.head_size + form_.value_size + 1);
    const auto steps = static_cast<int64_t>(std::min(form_.pairs() * size / 8, 1e18));
    ParallelFor(threads_, form_.batch * form_.heads * blocks_, steps, 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) RunBlock(args, i);
                });
    return absl::OkStatus();
  }

 private:
  void RunBlock(const KernelArgs& args, int64_t i) const {
    const int64_t block = i % blocks_, head = i / blocks_ % form_.heads;
    const AttentionPart part = PartOf(args, i / blocks_ / form_.heads, head);
    const int64_t query = block * kAttentionWidth;
    function_(part, query, std::min<int64_t>(kAttentionWidth, form_.queries - query));
  }

  AttentionPart PartOf(const KernelArgs& args, int64_t b, int64_t h) const {
    const AttentionForm& f = form_;
    const int64_t shared = f.KvHeadOf(h);
    AttentionPart part;
    part.q = static_cast<const float*>(args.inputs[0]) + b * f.q.batch + h * f.q.head;
    part.k = static_cast<const float*>(args.inputs[1]) + b * f.k.batch + shared * f.k.head;
    part.v = static_cast<const float*>(args.inputs[2]) + b * f.v.batch + shared * f.v.head;
    part.y = static_cast<float*>(args.outputs[0]) + b * f.y.batch + h * f.y.head;
    part.q_token = f.q.token;
    part.k_token = f.k.token;
    part.v_token = f.v.token;
    part.y_token = f.y.token;
    if (f.has_mask) {
      const int64_t at = b * f.mask_batch + h * f.mask_head;
      part.mask = {static_cast<const std::byte*>(args.inputs[3]) +
                       at * (bool_mask_ ? 1 : static_cast<int64_t>(sizeof(float))),
                   bool_mask_};
    }
    part.mask_query = f.mask_query;
    part.mask_key = f.mask_key;
    part.queries = f.queries;
    part.keys = f.keys;
    part.head_size = f.head_size;
    part.value_size = f.value_size;
    part.scale = static_cast<float>(f.scale);
    part.causal = f.causal;
    part.scratch = static_cast<float*>(args.scratch) + TeamIndex() * ScratchFloats(f);
    return part;
  }

  const AttendFn function_;
  const AttentionForm form_;
  const bool bool_mask_;
  const int threads_;
  int64_t blocks_ = 0;  // of queries, a head
};

std::optional<AttentionForm> FormOfQuery(const NodeQuery& query) {
  if (query.op != "fused.Attention" || !HasOutput(query, 0)) return std::nullopt;
  const absl::StatusOr<AttentionForm> form = AttentionFormOf(
      query.attrs, query.inputs[0]->shape, query.inputs[1]->shape, query.inputs[2]->shape,
      HasInput(query, 3) ? &query.inputs[3]->shape : nullptr);
  if (!form.ok()) return std::nullopt;
  return *form;
}

std::optional<KernelVariant> Match(const NodeQuery& query, int threads) {
  const std::optional<AttentionForm> form = FormOfQuery(query);
  if (!form.has_value() || query.inputs[0]->dtype != DType::kF32) return std::nullopt;
  if (std::max(form->head_size, form->value_size) > kMaxHeadSize) return std::nullopt;
  KernelVariant variant = DenseVariant(query, "simd");
  variant.scratch_bytes = ScratchFloats(*form) * threads * static_cast<int64_t>(sizeof(float));
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  const bool bool_mask = HasInput(query, 3) && query.inputs[3]->dtype == DType::kBool;
  return std::make_unique<AttentionKernel>(MILLRACE_SIMD_FUNCTION(AttendPart), *FormOfQuery(query),
                                           bool_mask, request.threads);
}

}  // namespace

KernelFamily SimdAttentionFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
