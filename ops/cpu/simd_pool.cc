// f32 MaxPool, AveragePool and GlobalMaxPool of one to three spatial dims, in two steps per row of
// the result. First the rows of the operand that the windows cover are joined (maximum or sum),
// element by element, into a row buffer that has room for the padding on both sides: contiguous,
// and each operand row is in cache. Then the taps along the row are joined: for strides 1 and 2 by
// vectors, else one by one. The buffer is scratch, one per thread. AveragePool then divides by how
// many taps count at each place, which is a product of one number per dim.
//
// A second result (Indices) is left to the reference.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_pool.cc"
#include <algorithm>
#include <limits>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/pool.h"

#ifndef MILLRACE_OPS_CPU_SIMD_POOL_CC_
#define MILLRACE_OPS_CPU_SIMD_POOL_CC_
namespace millrace {

struct PoolPlan {
  bool average = false;
  Window window;
  int64_t rows = 0;    // of the result, over all channels
  int64_t padded = 0;  // elements of a row with its padding
  // AveragePool: how many taps count at each place of the first two dims, and of the last one.
  std::vector<int64_t> counts0, counts1;
  std::vector<float> counts2;
};

}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_SIMD_POOL_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// The larger one; NaN when either is.
struct Maximum {
  static float Start() { return -std::numeric_limits<float>::infinity(); }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), hn::Max(a, b));
  }
  static float JoinOne(float a, float b) { return a != a || b != b ? a + b : a > b ? a : b; }
};

struct Sum {
  static float Start() { return 0; }
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return hn::Add(a, b);
  }
  static float JoinOne(float a, float b) { return a + b; }
};

// to[i] = join(to[i], from[i])
template <class Op>
HWY_INLINE void JoinInto(const float* from, float* to, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Op::Join(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
  if (i == count) return;
  const auto joined = Op::Join(LoadFirst(d, to + i, count - i), LoadFirst(d, from + i, count - i));
  StoreFirst(joined, d, to + i, count - i);
}

// out[i] = join over taps t of row[i * stride + t * dilation], for the last spatial dim. Whole
// vectors are read even for the last few results: the row buffer has room for that (kSlack).
template <class Op, class Load>
HWY_INLINE void JoinAlongBy(const Window& w, const float* row, float* out, Load load) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), count = static_cast<size_t>(w.out[2]);
  for (size_t i = 0; i < count; i += lanes) {
    const float* at = row + i * static_cast<size_t>(w.strides[2]);
    auto joined = load(at);
    for (int64_t t = 1; t < w.kernel[2]; ++t) {
      joined = Op::Join(joined, load(at + t * w.dilations[2]));
    }
    if (i + lanes <= count) {
      hn::StoreU(joined, d, out + i);
    } else {
      StoreFirst(joined, d, out + i, count - i);
    }
  }
}

template <class Op>
HWY_INLINE void JoinAlong(const Window& w, const float* row, float* out) {
  const hn::ScalableTag<float> d;
  if (w.strides[2] == 1) {
    return JoinAlongBy<Op>(w, row, out, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); });
  }
  if (w.strides[2] == 2) {
    return JoinAlongBy<Op>(w, row, out, [&](const float* p) HWY_ATTR {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, p, even, odd);
      return even;
    });
  }
  for (int64_t i = 0; i < w.out[2]; ++i) {
    const float* at = row + i * w.strides[2];
    float joined = at[0];
    for (int64_t t = 1; t < w.kernel[2]; ++t) joined = Op::JoinOne(joined, at[t * w.dilations[2]]);
    out[i] = joined;
  }
}

// out[i] /= counts[i] * rows
HWY_INLINE void DivideBy(const float* counts, float rows, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto by_rows = hn::Set(d, rows);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto taps = hn::Mul(hn::LoadU(d, counts + i), by_rows);
    hn::StoreU(hn::Div(hn::LoadU(d, out + i), taps), d, out + i);
  }
  for (; i < count; ++i) out[i] /= counts[i] * rows;
}

// Rows [begin, end) of the result. `buffer` holds a row of the operand with its padding and kSlack
// elements more.
template <class Op>
HWY_INLINE void PoolRowsBy(const PoolPlan& plan, const float* in, float* out, float* buffer,
                           int64_t begin, int64_t end) {
  const Window& w = plan.window;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t o1 = r % w.out[1], o0 = r / w.out[1] % w.out[0], plane = r / w.out[1] / w.out[0];
    std::fill(buffer, buffer + plan.padded, Op::Start());
    for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0) {
      const int64_t i0 = o0 * w.strides[0] - w.pads_begin[0] + k0 * w.dilations[0];
      if (i0 < 0 || i0 >= w.in[0]) continue;
      for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1) {
        const int64_t i1 = o1 * w.strides[1] - w.pads_begin[1] + k1 * w.dilations[1];
        if (i1 < 0 || i1 >= w.in[1]) continue;
        JoinInto<Op>(in + ((plane * w.in[0] + i0) * w.in[1] + i1) * w.in[2],
                     buffer + w.pads_begin[2], static_cast<size_t>(w.in[2]));
      }
    }
    float* to = out + r * w.out[2];
    JoinAlong<Op>(w, buffer, to);
    if (!plan.average) continue;
    const auto rows = static_cast<float>(std::max<int64_t>(1, plan.counts0[o0] * plan.counts1[o1]));
    DivideBy(plan.counts2.data(), rows, to, static_cast<size_t>(w.out[2]));
  }
}

void PoolRows(const PoolPlan& plan, const float* in, float* out, float* buffer, int64_t begin,
              int64_t end) {
  if (plan.average) {
    PoolRowsBy<Sum>(plan, in, out, buffer, begin, end);
  } else {
    PoolRowsBy<Maximum>(plan, in, out, buffer, begin, end);
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

HWY_EXPORT(PoolRows);
using PoolFn = void (*)(const PoolPlan& plan, const float* in, float* out, float* buffer,
                        int64_t begin, int64_t end);

constexpr int64_t kMaxPadded = int64_t{1} << 24;  // longer rows are not worth a buffer per thread
constexpr int64_t kSlack = 128;                   // elements: two vectors of 2,048 bits

// A buffer for each thread, on cache lines of its own.
int64_t BufferBytes(const PoolPlan& plan) {
  return ((plan.padded + kSlack) * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

// One window over all of a channel, whose last dim is the row.
Window GlobalWindow(const Shape& x) {
  Window w;
  w.rank = 2;
  w.in[2] = x[x.rank() - 1];
  for (int d = 2; d < x.rank() - 1; ++d) w.in[1] *= x[d];
  w.kernel = w.in;
  return w;
}

std::optional<Window> WindowOf(const NodeQuery& query) {
  const Shape& x = query.inputs[0]->shape;
  if (query.op == "GlobalMaxPool") return GlobalWindow(x);
  if (query.op != "MaxPool" && query.op != "AveragePool") return std::nullopt;
  const absl::StatusOr<Window> window = PoolWindow(query.attrs, x);
  return window.ok() ? std::optional<Window>(*window) : std::nullopt;
}

std::optional<PoolPlan> MakePlan(const NodeQuery& query) {
  if (!HasInput(query, 0) || !HasOutput(query, 0) || HasOutput(query, 1)) return std::nullopt;
  if (!AllOf(query, DType::kF32)) return std::nullopt;
  const std::optional<Window> window = WindowOf(query);
  if (!window.has_value()) return std::nullopt;
  const Window& w = *window;
  PoolPlan plan;
  plan.average = query.op == "AveragePool";
  plan.window = w;
  plan.rows = NumElements(query.outputs[0]->shape) / w.out[2];
  // The last window may end beyond the padding (ceil_mode), or before its end.
  plan.padded = std::max(w.pads_begin[2] + w.in[2], Reach(w, 2) + w.pads_begin[2]);
  if (plan.padded > kMaxPadded) return std::nullopt;
  if (plan.average) {
    const auto counts = TapCounts(w, query.attrs.Bool("count_include_pad", false));
    plan.counts0 = counts[0];
    plan.counts1 = counts[1];
    for (int64_t n : counts[2]) {
      plan.counts2.push_back(static_cast<float>(std::max<int64_t>(1, n)));
    }
  }
  return plan;
}

class PoolKernel final : public Kernel {
 public:
  PoolKernel(PoolPlan plan, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(PoolRows)), plan_(std::move(plan)), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    auto* buffers = static_cast<std::byte*>(args.scratch);
    const Window& w = plan_.window;
    const int64_t steps = plan_.rows * w.kernel[0] * w.kernel[1] * (w.in[2] + w.out[2]);
    ParallelFor(threads_, plan_.rows, steps, 1, [&](int64_t begin, int64_t end) {
      auto* buffer = reinterpret_cast<float*>(buffers + TeamIndex() * BufferBytes(plan_));
      function_(plan_, in, out, buffer, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const PoolFn function_;
  const PoolPlan plan_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int threads) {
  const std::optional<PoolPlan> plan = MakePlan(query);
  if (!plan.has_value()) return std::nullopt;
  KernelVariant variant = DenseVariant(query, "simd");
  variant.scratch_bytes = BufferBytes(*plan) * threads;
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<PoolKernel>(*MakePlan(request.query), request.threads);
}

}  // namespace

KernelFamily SimdPoolFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
