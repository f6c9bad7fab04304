// f32 MaxPool of one to three spatial dims, in two steps per row of the result. First the maximum
// over the rows of the operand that the windows cover, element by element, into a row buffer that
// has room for the padding on both sides, filled with -infinity: contiguous, and each operand row
// is in cache. Then the maximum over the taps along the row: for strides 1 and 2 by vectors, else
// one by one. The buffer is scratch, one per thread.
//
// A second result (Indices) is left to the reference.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_max_pool.cc"
#include <limits>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/window_spec.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// to[i] = max(to[i], from[i])
HWY_INLINE void MaxInto(const float* from, float* to, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Max(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i] > to[i] ? from[i] : to[i];
}

// out[i] = max over taps t of row[i * stride + t * dilation].
HWY_INLINE void MaxAlong(const WindowDim& w, const float* row, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (w.stride == 1) {
    for (; i + lanes <= w.out; i += lanes) {
      auto max = hn::LoadU(d, row + i);
      for (int64_t t = 1; t < w.kernel; ++t) {
        max = hn::Max(max, hn::LoadU(d, row + i + t * w.dilation));
      }
      hn::StoreU(max, d, out + i);
    }
  } else if (w.stride == 2) {
    // A vector of the result reads 2 * lanes elements for each tap, one more than it needs: the
    // buffer has that one.
    for (; i + lanes <= w.out; i += lanes) {
      auto max = hn::Set(d, -std::numeric_limits<float>::infinity());
      for (int64_t t = 0; t < w.kernel; ++t) {
        hn::Vec<decltype(d)> even, odd;
        hn::LoadInterleaved2(d, row + 2 * i + t * w.dilation, even, odd);
        max = hn::Max(max, even);
      }
      hn::StoreU(max, d, out + i);
    }
  }
  for (; i < w.out; ++i) {
    float max = row[i * w.stride];
    for (int64_t t = 1; t < w.kernel; ++t) {
      const float x = row[i * w.stride + t * w.dilation];
      max = x > max ? x : max;
    }
    out[i] = max;
  }
}

// Rows [begin, end) of the result, counted over all planes. `buffer` holds a padded row of the
// operand and one element more. dims[0] and dims[1] are the two outer spatial dims.
void MaxPoolRows(const WindowDim* dims, const float* in, float* out, float* buffer, int64_t begin,
                 int64_t end) {
  const WindowDim &d0 = dims[0], &d1 = dims[1], &d2 = dims[2];
  const int64_t padded = d2.pad_begin + d2.in + d2.pad_end + 1;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t o1 = r % d1.out, o0 = r / d1.out % d0.out, plane = r / d1.out / d0.out;
    for (int64_t i = 0; i < padded; ++i) buffer[i] = -std::numeric_limits<float>::infinity();
    for (int64_t k0 = 0; k0 < d0.kernel; ++k0) {
      const int64_t i0 = o0 * d0.stride - d0.pad_begin + k0 * d0.dilation;
      if (i0 < 0 || i0 >= d0.in) continue;
      for (int64_t k1 = 0; k1 < d1.kernel; ++k1) {
        const int64_t i1 = o1 * d1.stride - d1.pad_begin + k1 * d1.dilation;
        if (i1 < 0 || i1 >= d1.in) continue;
        MaxInto(in + ((plane * d0.in + i0) * d1.in + i1) * d2.in, buffer + d2.pad_begin,
                static_cast<size_t>(d2.in));
      }
    }
    MaxAlong(d2, buffer, out + r * d2.out);
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
using MaxPoolFn = void (*)(const WindowDim* dims, const float* in, float* out, float* buffer,
                           int64_t begin, int64_t end);

struct PoolPlan {
  WindowDim dims[kMaxSpatialDims];  // the node's spatial dims, last ones last
  int64_t rows = 0;                 // of the result
  int64_t buffer_bytes = 0;         // of a thread
};

std::optional<PoolPlan> MakePlan(const NodeQuery& query) {
  if (query.op != "MaxPool" || !HasOutput(query, 0) || HasOutput(query, 1)) return std::nullopt;
  if (!AllOf(query, DType::kF32)) return std::nullopt;
  const Shape &in = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  const auto window = WindowSpecOf(query.attrs, in, out, query.attrs.Ints("kernel_shape"));
  if (!window.has_value()) return std::nullopt;
  PoolPlan plan;
  for (int i = 0; i < window->rank; ++i) {
    plan.dims[kMaxSpatialDims - window->rank + i] = window->dims[i];
  }
  const WindowDim& last = plan.dims[kMaxSpatialDims - 1];
  plan.rows = NumElements(out) / last.out;
  const int64_t padded = last.pad_begin + last.in + last.pad_end + 1;
  plan.buffer_bytes = (padded * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
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
    const WindowDim* d = plan_.dims;
    const int64_t steps = plan_.rows * d[0].kernel * d[1].kernel * (d[2].in + d[2].out);
    ParallelFor(threads_, plan_.rows, steps, 1, [&](int64_t begin, int64_t end) {
      auto* buffer = reinterpret_cast<float*>(buffers + TeamIndex() * plan_.buffer_bytes);
      function_(plan_.dims, in, out, buffer, begin, end);
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
  variant.scratch_bytes = plan->buffer_bytes * threads;
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<MaxPoolKernel>(*MakePlan(request.query), request.threads);
}

}  // namespace

KernelFamily SimdMaxPoolFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
