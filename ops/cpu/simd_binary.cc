// f32 Add, Sub, Mul, Div with broadcasting. The index space is collapsed when the kernel is
// prepared (broadcast_space.h); along its last dim each operand either steps by one or stands
// still, which gives three loops. Most nodes collapse to one row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_binary.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/broadcast_space.h"
#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// One row; an operand that stands still is read once. `out` may be `a` or `b` where that one steps.
template <bool kStepA, bool kStepB, class Op>
HWY_INLINE void BinaryRow(const float* a, const float* b, float* out, int64_t length, Op op) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(length);
  const auto still_a = hn::Set(d, kStepA ? 0.0f : *a), still_b = hn::Set(d, kStepB ? 0.0f : *b);
  const auto load_a = [&](size_t i) HWY_ATTR { return kStepA ? hn::LoadU(d, a + i) : still_a; };
  const auto load_b = [&](size_t i) HWY_ATTR { return kStepB ? hn::LoadU(d, b + i) : still_b; };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto x = op(load_a(i), load_b(i)), y = op(load_a(i + lanes), load_b(i + lanes));
    hn::StoreU(x, d, out + i);
    hn::StoreU(y, d, out + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(op(load_a(i), load_b(i)), d, out + i);
  if (i == n) return;
  const auto x = kStepA ? LoadFirst(d, a + i, n - i) : still_a;
  const auto y = kStepB ? LoadFirst(d, b + i, n - i) : still_b;
  StoreFirst(op(x, y), d, out + i, n - i);
}

template <bool kStepA, bool kStepB, class Op>
HWY_INLINE void BinaryRows(const BroadcastSpace& space, const float* a, const float* b, float* out,
                           int64_t begin, int64_t end, Op op) {
  if (space.rank == 1) {
    return BinaryRow<kStepA, kStepB>(a + (kStepA ? begin : 0), b + (kStepB ? begin : 0),
                                     out + begin, end - begin, op);
  }
  WalkRows(space, begin, end, [&](int64_t at_a, int64_t at_b, int64_t at, int64_t n) HWY_ATTR {
    BinaryRow<kStepA, kStepB>(a + at_a, b + at_b, out + at, n, op);
  });
}

template <class Op>
HWY_INLINE void BinaryLoop(const BroadcastSpace& space, const float* a, const float* b, float* out,
                           int64_t begin, int64_t end, Op op) {
  const int last = space.rank - 1;
  if (space.a[last] != 0 && space.b[last] != 0) {
    BinaryRows<true, true>(space, a, b, out, begin, end, op);
  } else if (space.b[last] == 0) {
    BinaryRows<true, false>(space, a, b, out, begin, end, op);
  } else {
    BinaryRows<false, true>(space, a, b, out, begin, end, op);
  }
}

#define MILLRACE_BINARY(name)                                                             \
  void name##All(const BroadcastSpace& space, const float* a, const float* b, float* out, \
                 int64_t begin, int64_t end) {                                            \
    BinaryLoop(space, a, b, out, begin, end,                                              \
               [](auto x, auto y) HWY_ATTR { return hn::name(x, y); });                   \
  }
MILLRACE_BINARY(Add)
MILLRACE_BINARY(Sub)
MILLRACE_BINARY(Mul)
MILLRACE_BINARY(Div)
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

HWY_EXPORT(AddAll);
HWY_EXPORT(SubAll);
HWY_EXPORT(MulAll);
HWY_EXPORT(DivAll);

using BinaryFn = void (*)(const BroadcastSpace& space, const float* a, const float* b, float* out,
                          int64_t begin, int64_t end);

BinaryFn FindBinary(std::string_view op) {
  if (op == "Add") return MILLRACE_SIMD_FUNCTION(AddAll);
  if (op == "Sub") return MILLRACE_SIMD_FUNCTION(SubAll);
  if (op == "Mul") return MILLRACE_SIMD_FUNCTION(MulAll);
  if (op == "Div") return MILLRACE_SIMD_FUNCTION(DivAll);
  return nullptr;
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(BinaryFn function, const BroadcastSpace& space, int threads)
      : function_(function), space_(space), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* a = static_cast<const float*>(args.inputs[0]);
    const auto* b = static_cast<const float*>(args.inputs[1]);
    auto* out = static_cast<float*>(args.outputs[0]);
    ParallelFor(threads_, space_.count, space_.count, 64,
                [&](int64_t begin, int64_t end) { function_(space_, a, b, out, begin, end); });
    return absl::OkStatus();
  }

 private:
  const BinaryFn function_;
  const BroadcastSpace space_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (FindBinary(query.op) == nullptr || !AllOf(query, DType::kF32)) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  return std::make_unique<BinaryKernel>(
      FindBinary(query.op),
      MakeBroadcastSpace(query.inputs[0]->shape, query.inputs[1]->shape, query.outputs[0]->shape),
      request.threads);
}

}  // namespace

KernelFamily SimdBinaryFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
