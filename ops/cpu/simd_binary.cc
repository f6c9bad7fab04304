// f32 elementwise ops of two operands with broadcasting; comparisons give bools. The index space is
// collapsed when the kernel is prepared (broadcast_space.h); along its last dim each operand either
// steps by one or stands still, which gives three loops. Most nodes collapse to one row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_binary.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/broadcast_space.h"
#include "ops/cpu/simd_math-inl.h"

// One line per op: the type of its result, and what it is of d, x and y. NaN in either operand of
// Max and Min gives NaN.
#ifndef MILLRACE_BINARY_OPS
#define MILLRACE_BINARY_OPS(OP)                                              \
  OP(Add, float, hn::Add(x, y))                                              \
  OP(Sub, float, hn::Sub(x, y))                                              \
  OP(Mul, float, hn::Mul(x, y))                                              \
  OP(Div, float, hn::Div(x, y))                                              \
  OP(Max, float, hn::IfThenElse(hn::Or(hn::Gt(y, x), hn::IsNaN(y)), y, x))   \
  OP(Min, float, hn::IfThenElse(hn::Or(hn::Lt(y, x), hn::IsNaN(y)), y, x))   \
  OP(PRelu, float, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, y), x)) \
  OP(Equal, bool, hn::Eq(x, y))                                              \
  OP(Greater, bool, hn::Gt(x, y))                                            \
  OP(GreaterOrEqual, bool, hn::Ge(x, y))                                     \
  OP(Less, bool, hn::Lt(x, y))                                               \
  OP(LessOrEqual, bool, hn::Le(x, y))
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// Results of whole vectors and of the first `count` lanes: numbers, or bools from a mask.
template <class D>
HWY_INLINE void StoreAll(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}
template <class D>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, float* to, size_t count) {
  StoreFirst(v, d, to, count);
}
template <class D>
HWY_INLINE void StoreAll(hn::Mask<D> mask, D, bool* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1));
  hn::StoreU(hn::DemoteTo(d8, ones), d8, reinterpret_cast<uint8_t*>(to));
}
template <class D>
HWY_INLINE void StoreSome(hn::Mask<D> mask, D d, bool* to, size_t count) {
  bool lanes[hn::MaxLanes(d)];
  StoreAll(mask, d, lanes);
  for (size_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// One row; an operand that stands still is read once. `out` may be `a` or `b` where that one steps.
template <bool kStepA, bool kStepB, class Result, class Op>
HWY_INLINE void BinaryRow(const float* a, const float* b, Result* out, int64_t length, Op op) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(length);
  const auto still_a = hn::Set(d, kStepA ? 0.0f : *a), still_b = hn::Set(d, kStepB ? 0.0f : *b);
  const auto load_a = [&](size_t i) HWY_ATTR { return kStepA ? hn::LoadU(d, a + i) : still_a; };
  const auto load_b = [&](size_t i) HWY_ATTR { return kStepB ? hn::LoadU(d, b + i) : still_b; };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto x = op(d, load_a(i), load_b(i)), y = op(d, load_a(i + lanes), load_b(i + lanes));
    StoreAll(x, d, out + i);
    StoreAll(y, d, out + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) StoreAll(op(d, load_a(i), load_b(i)), d, out + i);
  if (i == n) return;
  const auto x = kStepA ? LoadFirst(d, a + i, n - i) : still_a;
  const auto y = kStepB ? LoadFirst(d, b + i, n - i) : still_b;
  StoreSome(op(d, x, y), d, out + i, n - i);
}

template <bool kStepA, bool kStepB, class Result, class Op>
HWY_INLINE void BinaryRows(const BroadcastSpace& space, const float* a, const float* b, Result* out,
                           int64_t begin, int64_t end, Op op) {
  if (space.rank == 1) {
    return BinaryRow<kStepA, kStepB>(a + (kStepA ? begin : 0), b + (kStepB ? begin : 0),
                                     out + begin, end - begin, op);
  }
  WalkRows<2>(space, begin, end,
              [&](const std::array<int64_t, 2>& from, int64_t at, int64_t n) HWY_ATTR {
                BinaryRow<kStepA, kStepB>(a + from[0], b + from[1], out + at, n, op);
              });
}

template <class Result, class Op>
HWY_INLINE void BinaryLoop(const BroadcastSpace& space, const float* a, const float* b, void* out,
                           int64_t begin, int64_t end, Op op) {
  auto* to = static_cast<Result*>(out);
  if (space.Steps(0) && space.Steps(1)) {
    BinaryRows<true, true>(space, a, b, to, begin, end, op);
  } else if (space.Steps(0)) {
    BinaryRows<true, false>(space, a, b, to, begin, end, op);
  } else {
    BinaryRows<false, true>(space, a, b, to, begin, end, op);
  }
}

#define MILLRACE_BINARY(name, Result, body)                                                \
  void name##All(const BroadcastSpace& space, const float* a, const float* b, void* out,   \
                 int64_t begin, int64_t end) {                                             \
    BinaryLoop<Result>(space, a, b, out, begin, end, [](auto d, auto x, auto y) HWY_ATTR { \
      (void)d;                                                                             \
      return body;                                                                         \
    });                                                                                    \
  }
MILLRACE_BINARY_OPS(MILLRACE_BINARY)
#undef MILLRACE_BINARY

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

#define MILLRACE_EXPORT(name, Result, body) HWY_EXPORT(name##All);
MILLRACE_BINARY_OPS(MILLRACE_EXPORT)
#undef MILLRACE_EXPORT

using BinaryFn = void (*)(const BroadcastSpace& space, const float* a, const float* b, void* out,
                          int64_t begin, int64_t end);

BinaryFn FindBinary(std::string_view op) {
#define MILLRACE_FIND(name, Result, body) \
  if (op == #name) return MILLRACE_SIMD_FUNCTION(name##All);
  MILLRACE_BINARY_OPS(MILLRACE_FIND)
#undef MILLRACE_FIND
  return nullptr;
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(BinaryFn function, const BroadcastSpace& space, int threads)
      : function_(function), space_(space), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* a = static_cast<const float*>(args.inputs[0]);
    const auto* b = static_cast<const float*>(args.inputs[1]);
    ParallelFor(threads_, space_.count, space_.count, 64, [&](int64_t begin, int64_t end) {
      function_(space_, a, b, args.outputs[0], begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const BinaryFn function_;
  const BroadcastSpace space_;
  const int threads_;
};

// Max and Min may have any number of operands: the others are the reference's.
std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.inputs.size() != 2 || FindBinary(query.op) == nullptr) return std::nullopt;
  for (const auto& input : query.inputs) {
    if (!input.has_value() || input->dtype != DType::kF32) return std::nullopt;
  }
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<BinaryKernel>(FindBinary(request.query.op),
                                        BroadcastSpaceOf(request.query), request.threads);
}

}  // namespace

KernelFamily SimdBinaryFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
