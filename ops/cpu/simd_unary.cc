// f32 elementwise ops of one operand: a flat loop, whole vectors and one partial one. The function
// for this processor is looked up when the kernel is prepared, so that running it on a few elements
// costs two indirect calls.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_unary.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// `out` may be `in`.
template <class Op>
HWY_INLINE void UnaryLoop(const float* in, float* out, int64_t count, Op op) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = op(d, hn::LoadU(d, in + i)), b = op(d, hn::LoadU(d, in + i + lanes));
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(op(d, hn::LoadU(d, in + i)), d, out + i);
  if (i < n) StoreFirst(op(d, LoadFirst(d, in + i, n - i)), d, out + i, n - i);
}

// NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> Relu(D d, hn::Vec<D> x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}
template <class D>
HWY_INLINE hn::Vec<D> SquareRoot(D, hn::Vec<D> x) {
  return hn::Sqrt(x);
}

#define MILLRACE_UNARY(name, function)                                                 \
  void name##All(const float* in, float* out, int64_t count) {                         \
    UnaryLoop(in, out, count, [](auto d, auto x) HWY_ATTR { return function(d, x); }); \
  }
MILLRACE_UNARY(Relu, Relu)
MILLRACE_UNARY(Tanh, Tanh)
MILLRACE_UNARY(Erf, Erf)
MILLRACE_UNARY(Gelu, Gelu)
MILLRACE_UNARY(GeluTanh, GeluTanh)
MILLRACE_UNARY(Exp, Exp)
MILLRACE_UNARY(Sqrt, SquareRoot)
MILLRACE_UNARY(Sigmoid, Sigmoid)
#undef MILLRACE_UNARY

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(ReluAll);
HWY_EXPORT(TanhAll);
HWY_EXPORT(ErfAll);
HWY_EXPORT(GeluAll);
HWY_EXPORT(GeluTanhAll);
HWY_EXPORT(ExpAll);
HWY_EXPORT(SqrtAll);
HWY_EXPORT(SigmoidAll);

using UnaryFn = void (*)(const float* in, float* out, int64_t count);

UnaryFn FindUnary(const NodeQuery& query) {
  const std::string_view op = query.op;
  if (op == "Relu") return MILLRACE_SIMD_FUNCTION(ReluAll);
  if (op == "Tanh") return MILLRACE_SIMD_FUNCTION(TanhAll);
  if (op == "Erf") return MILLRACE_SIMD_FUNCTION(ErfAll);
  if (op == "Exp") return MILLRACE_SIMD_FUNCTION(ExpAll);
  if (op == "Sqrt") return MILLRACE_SIMD_FUNCTION(SqrtAll);
  if (op == "Sigmoid") return MILLRACE_SIMD_FUNCTION(SigmoidAll);
  if (op == "Gelu") {
    return query.attrs.String("approximate", "none") == "tanh" ? MILLRACE_SIMD_FUNCTION(GeluTanhAll)
                                                               : MILLRACE_SIMD_FUNCTION(GeluAll);
  }
  return nullptr;
}

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(UnaryFn function, int64_t count, int threads)
      : function_(function), count_(count), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    ParallelFor(threads_, count_, count_, 64, [&](int64_t begin, int64_t end) {
      function_(in + begin, out + begin, end - begin);
    });
    return absl::OkStatus();
  }

 private:
  const UnaryFn function_;
  const int64_t count_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!AllOf(query, DType::kF32) || FindUnary(query) == nullptr) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<UnaryKernel>(
      FindUnary(request.query), NumElements(request.query.outputs[0]->shape), request.threads);
}

}  // namespace

KernelFamily SimdUnaryFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
