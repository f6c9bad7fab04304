// f32 elementwise ops of one operand and up to two constants, attributes or Clip's bounds: a flat
// loop, whole vectors and one partial one. The function for this processor is looked up when the
// kernel is prepared, so that running it on a few elements costs two indirect calls.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_unary.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

// One line per op: what it is of d, x and the constants a and b.
#ifndef MILLRACE_UNARY_OPS
#define MILLRACE_UNARY_OPS(OP)                                                              \
  OP(Relu, Relu(d, x))                                                                      \
  OP(Tanh, Tanh(d, x))                                                                      \
  OP(Erf, Erf(d, x))                                                                        \
  OP(Gelu, Gelu(d, x))                                                                      \
  OP(GeluTanh, GeluTanh(d, x))                                                              \
  OP(Exp, Exp(d, x))                                                                        \
  OP(Log, Log(d, x))                                                                        \
  OP(Sqrt, hn::Sqrt(x))                                                                     \
  OP(Reciprocal, hn::Div(hn::Set(d, 1.0f), x))                                              \
  OP(Sigmoid, Sigmoid(d, x))                                                                \
  OP(Neg, hn::Neg(x))                                                                       \
  OP(Abs, hn::Abs(x))                                                                       \
  OP(Sign, SignOf(d, x))                                                                    \
  OP(Ceil, hn::Ceil(x))                                                                     \
  OP(Floor, hn::Floor(x))                                                                   \
  OP(Round, hn::Round(x))                                                                   \
  OP(Softplus, Softplus(d, x))                                                              \
  OP(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(a, x), x))                   \
  OP(Elu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(a, ExpMinus1(d, x)), x))           \
  OP(Swish, hn::Mul(x, Sigmoid(d, hn::Mul(a, x))))                                          \
  OP(HardSigmoid, Between(d, hn::MulAdd(a, x, b), hn::Zero(d), hn::Set(d, 1.0f)))           \
  OP(HardSwish, hn::Mul(x, Between(d, hn::MulAdd(a, x, b), hn::Zero(d), hn::Set(d, 1.0f)))) \
  OP(Clip, Between(d, x, a, b))
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> Relu(D d, hn::Vec<D> x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}
template <class D>
HWY_INLINE hn::Vec<D> SignOf(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  const auto y =
      hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), hn::IfThenElseZero(hn::Gt(x, zero), one));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
// At least a, at most b, which wins; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> Between(D, hn::Vec<D> x, hn::Vec<D> a, hn::Vec<D> b) {
  const auto raised = hn::IfThenElse(hn::Lt(x, a), a, x);
  return hn::IfThenElse(hn::Gt(raised, b), b, raised);
}

// `out` may be `in`.
#define MILLRACE_UNARY(name, body)                                                        \
  void name##All(const float* in, float* out, int64_t count, float first, float second) { \
    const hn::ScalableTag<float> d;                                                       \
    [[maybe_unused]] const auto a = hn::Set(d, first), b = hn::Set(d, second);            \
    UnaryRow(in, out, static_cast<size_t>(count), [&](auto x) HWY_ATTR { return body; }); \
  }
MILLRACE_UNARY_OPS(MILLRACE_UNARY)
#undef MILLRACE_UNARY

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <limits>

#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

#define MILLRACE_EXPORT(name, body) HWY_EXPORT(name##All);
MILLRACE_UNARY_OPS(MILLRACE_EXPORT)
#undef MILLRACE_EXPORT

using UnaryFn = void (*)(const float* in, float* out, int64_t count, float first, float second);

UnaryFn FindUnary(const NodeQuery& query) {
  const bool tanh = query.attrs.String("approximate", "none") == "tanh";
  const std::string op = query.op == "Gelu" && tanh ? "GeluTanh" : query.op;
#define MILLRACE_FIND(name, body) \
  if (op == #name) return MILLRACE_SIMD_FUNCTION(name##All);
  MILLRACE_UNARY_OPS(MILLRACE_FIND)
#undef MILLRACE_FIND
  return nullptr;
}

struct Constants {
  float first = 0, second = 0;
};

// Those a query fixes; Clip's bounds are operands, read at each run.
Constants ConstantsOf(const NodeQuery& query) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (query.op == "Clip") return {-kInfinity, kInfinity};
  if (query.op == "HardSwish") return {1.0f / 6, 0.5f};
  return {static_cast<float>(query.attrs.Float("alpha", 0)),
          static_cast<float>(query.attrs.Float("beta", 0))};
}

class UnaryKernel final : public Kernel {
 public:
  UnaryKernel(const NodeQuery& query, int threads)
      : function_(FindUnary(query)),
        constants_(ConstantsOf(query)),
        has_min_(HasInput(query, 1)),
        has_max_(HasInput(query, 2)),
        count_(NumElements(query.outputs[0]->shape)),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    Constants c = constants_;
    if (has_min_) c.first = *static_cast<const float*>(args.inputs[1]);
    if (has_max_) c.second = *static_cast<const float*>(args.inputs[2]);
    ParallelFor(threads_, count_, count_, 64, [&](int64_t begin, int64_t end) {
      function_(in + begin, out + begin, end - begin, c.first, c.second);
    });
    return absl::OkStatus();
  }

 private:
  const UnaryFn function_;
  const Constants constants_;
  const bool has_min_, has_max_;
  const int64_t count_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!AllOf(query, DType::kF32) || FindUnary(query) == nullptr) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<UnaryKernel>(request.query, request.threads);
}

}  // namespace

KernelFamily SimdUnaryFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
