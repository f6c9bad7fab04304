// f32 Softmax and LogSoftmax along any axis. The operand is [outer, axis, inner]. With inner 1 each
// row takes three sweeps: maximum; exponentials and their sum; scaling (LogSoftmax: exponentials
// are only summed, then maximum and logarithm subtracted). Otherwise a vector of neighbouring
// columns goes through the same three sweeps together. Within a few units in the last place of the
// reference for each exponential, plus the error of an f32 sum.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_softmax.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// `out` may be `in`, here and below.
HWY_INLINE void SoftmaxRow(const float* in, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const auto max = hn::Set(d, RowMax(in, count));
  UnaryRow(in, out, count, [&](auto x) HWY_ATTR { return Exp(d, hn::Sub(x, max)); });
  const double sum = RowSum(out, count, [](auto x) HWY_ATTR { return x; });
  const auto scale = hn::Set(d, static_cast<float>(1.0 / sum));
  UnaryRow(out, out, count, [&](auto x) HWY_ATTR { return hn::Mul(x, scale); });
}

// The maximum and the logarithm are subtracted one after the other: their sum would be rounded.
HWY_INLINE void LogSoftmaxRow(const float* in, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const auto max = hn::Set(d, RowMax(in, count));
  const double sum = RowSum(in, count, [&](auto x) HWY_ATTR { return Exp(d, hn::Sub(x, max)); });
  const auto log_sum = hn::Set(d, static_cast<float>(std::log(sum)));
  UnaryRow(in, out, count, [&](auto x) HWY_ATTR { return hn::Sub(hn::Sub(x, max), log_sum); });
}

// `width` columns, at most a vector of them, of a [count, inner] matrix.
template <bool kLog>
HWY_INLINE void SoftmaxColumns(const float* in, float* out, size_t count, size_t inner,
                               size_t width) {
  const hn::ScalableTag<float> d;
  const bool whole = width == hn::Lanes(d);
  const auto load = [&](const float* p)
                        HWY_ATTR { return whole ? hn::LoadU(d, p) : LoadFirst(d, p, width); };
  const auto store = [&](auto v, float* p) HWY_ATTR {
    if (whole) {
      hn::StoreU(v, d, p);
    } else {
      StoreFirst(v, d, p, width);
    }
  };
  auto max = load(in);
  for (size_t i = 1; i < count; ++i) max = hn::Max(max, load(in + i * inner));
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < count; ++i) {
    const auto e = Exp(d, hn::Sub(load(in + i * inner), max));
    sum = hn::Add(sum, e);
    if (!kLog) store(e, out + i * inner);
  }
  const auto last = kLog ? Log(d, sum) : hn::Div(hn::Set(d, 1.0f), sum);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * inner;
    store(kLog ? hn::Sub(hn::Sub(load(in + at), max), last) : hn::Mul(load(out + at), last),
          out + at);
  }
}

// Rows (inner 1) or columns [begin, end), counted over all of `outer`.
template <bool kLog>
HWY_INLINE void Lines(const float* in, float* out, int64_t count, int64_t inner, int64_t begin,
                      int64_t end) {
  if (inner == 1) {
    const size_t n = static_cast<size_t>(count);
    for (int64_t r = begin; r < end; ++r) {
      if (kLog) {
        LogSoftmaxRow(in + r * count, out + r * count, n);
      } else {
        SoftmaxRow(in + r * count, out + r * count, n);
      }
    }
    return;
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (int64_t at = begin; at < end;) {
    const int64_t column = at % inner;
    const int64_t width = HWY_MIN(HWY_MIN(lanes, inner - column), end - at);
    const int64_t offset = at / inner * count * inner + column;
    SoftmaxColumns<kLog>(in + offset, out + offset, static_cast<size_t>(count),
                         static_cast<size_t>(inner), static_cast<size_t>(width));
    at += width;
  }
}

void SoftmaxAll(const float* in, float* out, int64_t count, int64_t inner, int64_t begin,
                int64_t end) {
  Lines<false>(in, out, count, inner, begin, end);
}
void LogSoftmaxAll(const float* in, float* out, int64_t count, int64_t inner, int64_t begin,
                   int64_t end) {
  Lines<true>(in, out, count, inner, begin, end);
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

HWY_EXPORT(SoftmaxAll);
HWY_EXPORT(LogSoftmaxAll);
using SoftmaxFn = void (*)(const float* in, float* out, int64_t count, int64_t inner, int64_t begin,
                           int64_t end);

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(SoftmaxFn function, const Shape& shape, int axis, int threads)
      : function_(function), count_(shape[axis]), threads_(threads) {
    for (int d = axis + 1; d < shape.rank(); ++d) inner_ *= shape[d];
    const int64_t elements = NumElements(shape);
    lines_ = elements == 0 ? 0 : elements / count_;
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    const int64_t unit = inner_ == 1 ? 1 : 16;
    ParallelFor(threads_, lines_, lines_ * count_, unit, [&](int64_t begin, int64_t end) {
      function_(in, out, count_, inner_, begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const SoftmaxFn function_;
  const int64_t count_;
  int64_t inner_ = 1;
  int64_t lines_ = 0;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "Softmax" && query.op != "LogSoftmax") return std::nullopt;
  if (!AllOf(query, DType::kF32)) return std::nullopt;
  if (query.inputs[0]->shape.rank() == 0) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const Shape& shape = request.query.inputs[0]->shape;
  const int64_t axis = request.query.attrs.Int("axis", -1);
  const SoftmaxFn function = request.query.op == "Softmax" ? MILLRACE_SIMD_FUNCTION(SoftmaxAll)
                                                           : MILLRACE_SIMD_FUNCTION(LogSoftmaxAll);
  return std::make_unique<SoftmaxKernel>(
      function, shape, static_cast<int>(axis < 0 ? axis + shape.rank() : axis), request.threads);
}

}  // namespace

KernelFamily SimdSoftmaxFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
