// f32 Softmax along any axis. The operand is [outer, axis, inner]. With inner 1 each row takes
// three sweeps: maximum; exponentials and their sum; scaling. Otherwise a vector of neighbouring
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

// `out` may be `in`.
HWY_INLINE void SoftmaxRow(const float* in, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto max = hn::Set(d, RowMax(in, count));
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Exp(d, hn::Sub(hn::LoadU(d, in + i), max)), d, out + i);
  }
  if (i < count) {
    const auto x = LoadFirst(d, in + i, count - i);
    StoreFirst(Exp(d, hn::Sub(x, max)), d, out + i, count - i);
  }
  const double sum = RowSum(out, count, [](auto x) HWY_ATTR { return x; });
  const auto scale = hn::Set(d, static_cast<float>(1.0 / sum));
  for (i = 0; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, out + i), scale), d, out + i);
  }
  if (i < count) {
    StoreFirst(hn::Mul(LoadFirst(d, out + i, count - i), scale), d, out + i, count - i);
  }
}

// `width` columns, at most a vector of them, of a [count, inner] matrix.
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
    store(e, out + i * inner);
  }
  const auto scale = hn::Div(hn::Set(d, 1.0f), sum);
  for (size_t i = 0; i < count; ++i) store(hn::Mul(load(out + i * inner), scale), out + i * inner);
}

// Rows (inner 1) or columns [begin, end), counted over all of `outer`.
void SoftmaxAll(const float* in, float* out, int64_t count, int64_t inner, int64_t begin,
                int64_t end) {
  if (inner == 1) {
    for (int64_t r = begin; r < end; ++r) {
      SoftmaxRow(in + r * count, out + r * count, static_cast<size_t>(count));
    }
    return;
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (int64_t at = begin; at < end;) {
    const int64_t column = at % inner;
    const int64_t width = HWY_MIN(HWY_MIN(lanes, inner - column), end - at);
    const int64_t offset = at / inner * count * inner + column;
    SoftmaxColumns(in + offset, out + offset, static_cast<size_t>(count),
                   static_cast<size_t>(inner), static_cast<size_t>(width));
    at += width;
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

HWY_EXPORT(SoftmaxAll);
using SoftmaxFn = void (*)(const float* in, float* out, int64_t count, int64_t inner, int64_t begin,
                           int64_t end);

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const Shape& shape, int axis, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(SoftmaxAll)), count_(shape[axis]), threads_(threads) {
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
  if (query.op != "Softmax" || !AllOf(query, DType::kF32)) return std::nullopt;
  if (query.inputs[0]->shape.rank() == 0) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const Shape& shape = request.query.inputs[0]->shape;
  const int64_t axis = request.query.attrs.Int("axis", -1);
  return std::make_unique<SoftmaxKernel>(
      shape, static_cast<int>(axis < 0 ? axis + shape.rank() : axis), request.threads);
}

}  // namespace

KernelFamily SimdSoftmaxFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
