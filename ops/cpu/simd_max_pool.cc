// f32 MaxPool of one to three spatial dims, in two steps per row of the result. First the maximum
// over the rows of the operand that the windows cover, element by element, into a row buffer that
// has room for the padding on both sides, filled with -infinity: contiguous, and each operand row
// is in cache. Then the maximum over the taps along the row: for strides 1 and 2 by vectors, else
// one by one. The buffer is scratch, one per thread.
//
// A second result (Indices) is left to the reference.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_max_pool.cc"
#include <algorithm>
#include <limits>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/window.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// The larger one; NaN when either is.
template <class V>
HWY_INLINE V MaxOrNaN(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), hn::Max(a, b));
}

// to[i] = max(to[i], from[i])
HWY_INLINE void MaxInto(const float* from, float* to, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(MaxOrNaN(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
  if (i == count) return;
  const auto max = MaxOrNaN(LoadFirst(d, to + i, count - i), LoadFirst(d, from + i, count - i));
  StoreFirst(max, d, to + i, count - i);
}

// out[i] = max over taps t of row[i * stride + t * dilation], for the last spatial dim. Whole
// vectors are read even for the last few results: the row buffer has room for that (kSlack).
template <class Load>
HWY_INLINE void MaxAlongBy(const Window& w, const float* row, float* out, Load load) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), count = static_cast<size_t>(w.out[2]);
  for (size_t i = 0; i < count; i += lanes) {
    const float* at = row + i * static_cast<size_t>(w.strides[2]);
    auto max = load(at);
    for (int64_t t = 1; t < w.kernel[2]; ++t) max = MaxOrNaN(max, load(at + t * w.dilations[2]));
    if (i + lanes <= count) {
      hn::StoreU(max, d, out + i);
    } else {
      StoreFirst(max, d, out + i, count - i);
    }
  }
}

HWY_INLINE void MaxAlong(const Window& w, const float* row, float* out) {
  const hn::ScalableTag<float> d;
  if (w.strides[2] == 1) {
    return MaxAlongBy(w, row, out, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); });
  }
  if (w.strides[2] == 2) {
    return MaxAlongBy(w, row, out, [&](const float* p) HWY_ATTR {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, p, even, odd);
      return even;
    });
  }
  for (int64_t i = 0; i < w.out[2]; ++i) {
    const float* at = row + i * w.strides[2];
    float max = at[0];
    for (int64_t t = 1; t < w.kernel[2]; ++t) {
      const float x = at[t * w.dilations[2]];
      max = max != max || x != x ? max + x : max > x ? max : x;
    }
    out[i] = max;
  }
}

// Rows [begin, end) of the result, counted over all planes. `buffer` holds a row of the operand
// with its padding, `padded` elements, and kSlack more.
void MaxPoolRows(const Window& w, int64_t padded, const float* in, float* out, float* buffer,
                 int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t o1 = r % w.out[1], o0 = r / w.out[1] % w.out[0], plane = r / w.out[1] / w.out[0];
    std::fill(buffer, buffer + padded, -std::numeric_limits<float>::infinity());
    for (int64_t k0 = 0; k0 < w.kernel[0]; ++k0) {
      const int64_t i0 = o0 * w.strides[0] - w.pads_begin[0] + k0 * w.dilations[0];
      if (i0 < 0 || i0 >= w.in[0]) continue;
      for (int64_t k1 = 0; k1 < w.kernel[1]; ++k1) {
        const int64_t i1 = o1 * w.strides[1] - w.pads_begin[1] + k1 * w.dilations[1];
        if (i1 < 0 || i1 >= w.in[1]) continue;
        MaxInto(in + ((plane * w.in[0] + i0) * w.in[1] + i1) * w.in[2], buffer + w.pads_begin[2],
                static_cast<size_t>(w.in[2]));
      }
    }
    MaxAlong(w, buffer, out + r * w.out[2]);
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

HWY_EXPORT(MaxPoolRows);
using MaxPoolFn = void (*)(const Window& w, int64_t padded, const float* in, float* out,
                           float* buffer, int64_t begin, int64_t end);

constexpr int64_t kMaxPadded = int64_t{1} << 24;  // longer rows are not worth a buffer per thread
constexpr int64_t kSlack = 128;                   // elements: two vectors of 2,048 bits

struct PoolPlan {
  Window window;
  int64_t rows = 0;    // of the result
  int64_t padded = 0;  // elements of a row with its padding
  // A buffer for each thread, on cache lines of its own.
  int64_t buffer_bytes() const {
    return ((padded + kSlack) * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  }
};

std::optional<PoolPlan> MakePlan(const NodeQuery& query) {
  if (query.op != "MaxPool" || !HasOutput(query, 0) || HasOutput(query, 1)) return std::nullopt;
  if (!AllOf(query, DType::kF32)) return std::nullopt;
  const auto window = MakeWindow(query.attrs, query.inputs[0]->shape.dims().subspan(2),
                                 query.attrs.Ints("kernel_shape"));
  if (!window.ok()) return std::nullopt;
  const Window& w = *window;
  PoolPlan plan{.window = w};
  plan.rows = NumElements(query.outputs[0]->shape) / w.out[2];
  // The last window may end beyond the padding (ceil_mode), or before its end.
  const int64_t reach = (w.out[2] - 1) * w.strides[2] + (w.kernel[2] - 1) * w.dilations[2] + 1;
  plan.padded = std::max(w.pads_begin[2] + w.in[2], reach);
  if (plan.padded > kMaxPadded) return std::nullopt;
  return plan;
}

class MaxPoolKernel final : public Kernel {
 public:
  MaxPoolKernel(const PoolPlan& plan, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(MaxPoolRows)), plan_(plan), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    auto* buffers = static_cast<std::byte*>(args.scratch);
    const Window& w = plan_.window;
    const int64_t steps = plan_.rows * w.kernel[0] * w.kernel[1] * (w.in[2] + w.out[2]);
    ParallelFor(threads_, plan_.rows, steps, 1, [&](int64_t begin, int64_t end) {
      auto* buffer = reinterpret_cast<float*>(buffers + TeamIndex() * plan_.buffer_bytes());
      function_(w, plan_.padded, in, out, buffer, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const MaxPoolFn function_;
  const PoolPlan plan_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int threads) {
  const std::optional<PoolPlan> plan = MakePlan(query);
  if (!plan.has_value()) return std::nullopt;
  KernelVariant variant = DenseVariant(query, "simd");
  variant.scratch_bytes = plan->buffer_bytes() * threads;
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<MaxPoolKernel>(*MakePlan(request.query), request.threads);
}

}  // namespace

KernelFamily SimdMaxPoolFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
