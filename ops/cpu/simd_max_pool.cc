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
HWY_INLINE float ScalarMaxOrNaN(float a, float b) {
  return a != a || b != b ? a + b : a > b ? a : b;
}

// to[i] = max(to[i], from[i])
HWY_INLINE void MaxInto(const float* from, float* to, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(MaxOrNaN(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
  for (; i < count; ++i) to[i] = ScalarMaxOrNaN(to[i], from[i]);
}

// out[i] = max over taps t of row[i * stride + t * dilation], for the last spatial dim.
HWY_INLINE void MaxAlong(const Window& w, const float* row, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t count = w.out[2], taps = w.kernel[2], stride = w.strides[2], step = w.dilations[2];
  int64_t i = 0;
  if (stride == 1) {
    for (; i + lanes <= count; i += lanes) {
      auto max = hn::LoadU(d, row + i);
      for (int64_t t = 1; t < taps; ++t) max = MaxOrNaN(max, hn::LoadU(d, row + i + t * step));
      hn::StoreU(max, d, out + i);
    }
  } else if (stride == 2) {
    // A vector of the result reads 2 * lanes elements for each tap, one more than it needs: the
    // buffer has that one.
    for (; i + lanes <= count; i += lanes) {
      hn::Vec<decltype(d)> max, even, odd;
      hn::LoadInterleaved2(d, row + 2 * i, max, odd);
      for (int64_t t = 1; t < taps; ++t) {
        hn::LoadInterleaved2(d, row + 2 * i + t * step, even, odd);
        max = MaxOrNaN(max, even);
      }
      hn::StoreU(max, d, out + i);
    }
  }
  for (; i < count; ++i) {
    const float* at = row + i * stride;
    float max = at[0];
    for (int64_t t = 1; t < taps; ++t) max = ScalarMaxOrNaN(max, at[t * step]);
    out[i] = max;
  }
}

// Rows [begin, end) of the result, counted over all planes. `buffer` holds `padded` elements: a row
// of the operand with its padding, and one more.
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
                w.in[2]);
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

struct PoolPlan {
  Window window;
  int64_t rows = 0;    // of the result
  int64_t padded = 0;  // elements of a buffer
  // A buffer for each thread, on cache lines of its own.
  int64_t buffer_bytes() const {
    return (padded * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
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
  plan.padded = std::max(w.pads_begin[2] + w.in[2], reach) + 1;
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
