// Where of elements of 4 and 8 bytes, whatever their type, with broadcasting: the condition's bytes
// become a mask of as many lanes. Along the last dim of the collapsed index space each operand
// steps by one or stands still.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_where.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/cpu/broadcast_space.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Steps {
  bool condition, x, y;
};

// A byte each in lanes as wide as T's.
template <class D>
HWY_INLINE hn::Vec<D> Widen(D d, const uint8_t* bytes) {
  const hn::Rebind<uint8_t, D> d8;
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const hn::Rebind<uint32_t, D> d32;
    return hn::PromoteTo(d, hn::PromoteTo(d32, hn::LoadU(d8, bytes)));
  } else {
    return hn::PromoteTo(d, hn::LoadU(d8, bytes));
  }
}

// One row. Where the condition stands still, one of the operands is taken whole.
template <typename T>
HWY_INLINE void WhereRow(const uint8_t* condition, const T* x, const T* y, T* out, size_t n,
                         Steps steps) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto still_x = hn::Set(d, *x), still_y = hn::Set(d, *y);
  size_t i = 0;
  for (; steps.condition && i + lanes <= n; i += lanes) {
    const auto bits = Widen(d, condition + i);
    const auto a = steps.x ? hn::LoadU(d, x + i) : still_x;
    const auto b = steps.y ? hn::LoadU(d, y + i) : still_y;
    hn::StoreU(hn::IfThenElse(hn::Ne(bits, hn::Zero(d)), a, b), d, out + i);
  }
  for (; i < n; ++i) {
    out[i] = condition[steps.condition ? i : 0] != 0 ? x[steps.x ? i : 0] : y[steps.y ? i : 0];
  }
}

template <typename T>
HWY_INLINE void WhereLoop(const BroadcastSpace& space, const void* condition, const void* x,
                          const void* y, void* out, int64_t begin, int64_t end) {
  const Steps steps = {space.Steps(0), space.Steps(1), space.Steps(2)};
  WalkRows<3>(space, begin, end,
              [&](const std::array<int64_t, 3>& from, int64_t at, int64_t n) HWY_ATTR {
                WhereRow(static_cast<const uint8_t*>(condition) + from[0],
                         static_cast<const T*>(x) + from[1], static_cast<const T*>(y) + from[2],
                         static_cast<T*>(out) + at, static_cast<size_t>(n), steps);
              });
}

void Where4(const BroadcastSpace& space, const void* condition, const void* x, const void* y,
            void* out, int64_t begin, int64_t end) {
  WhereLoop<uint32_t>(space, condition, x, y, out, begin, end);
}
void Where8(const BroadcastSpace& space, const void* condition, const void* x, const void* y,
            void* out, int64_t begin, int64_t end) {
  WhereLoop<uint64_t>(space, condition, x, y, out, begin, end);
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

HWY_EXPORT(Where4);
HWY_EXPORT(Where8);

using WhereFn = void (*)(const BroadcastSpace& space, const void* condition, const void* x,
                         const void* y, void* out, int64_t begin, int64_t end);

class WhereKernel final : public Kernel {
 public:
  WhereKernel(WhereFn function, const BroadcastSpace& space, int threads)
      : function_(function), space_(space), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    ParallelFor(threads_, space_.count, space_.count, 64, [&](int64_t begin, int64_t end) {
      function_(space_, args.inputs[0], args.inputs[1], args.inputs[2], args.outputs[0], begin,
                end);
    });
    return absl::OkStatus();
  }

 private:
  const WhereFn function_;
  const BroadcastSpace space_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "Where" || !HasOutput(query, 0)) return std::nullopt;
  const int64_t size = SizeOf(query.outputs[0]->dtype);
  if (size != 4 && size != 8) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const bool small = SizeOf(request.query.outputs[0]->dtype) == 4;
  const WhereFn function = small ? MILLRACE_SIMD_FUNCTION(Where4) : MILLRACE_SIMD_FUNCTION(Where8);
  return std::make_unique<WhereKernel>(function, BroadcastSpaceOf(request.query), request.threads);
}

}  // namespace

KernelFamily SimdWhereFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
