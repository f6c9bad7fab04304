// Cast between f32 and bf16, which is the upper half of an f32: to f32 a shift, to bf16 rounding to
// nearest even on the bits (graph/half.h), NaN kept as a quiet one. Bound by memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_cast.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include <cstdint>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of one bf16 for the bits of an f32.
HWY_INLINE uint16_t RoundedBits(uint32_t bits) {
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u
                                      : (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

void ToBFloat16(const void* in, void* out, int64_t begin, int64_t end) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto* from = static_cast<const uint32_t*>(in);
  auto* to = static_cast<uint16_t*>(out);
  const auto one = hn::Set(d, 1), half = hn::Set(d, 0x7fff), quiet = hn::Set(d, 0x40);
  const auto magnitude = hn::Set(d, 0x7fffffff), infinity = hn::Set(d, 0x7f800000);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto bits = hn::LoadU(d, from + i);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, half), hn::And(upper, one)));
    const auto is_nan = hn::Gt(hn::And(bits, magnitude), infinity);
    const auto chosen = hn::IfThenElse(is_nan, hn::Or(upper, quiet), rounded);
    hn::StoreU(hn::TruncateTo(dh, chosen), dh, to + i);
  }
  for (; i < end; ++i) to[i] = RoundedBits(from[i]);
}

void FromBFloat16(const void* in, void* out, int64_t begin, int64_t end) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto* from = static_cast<const uint16_t*>(in);
  auto* to = static_cast<uint32_t*>(out);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    hn::StoreU(hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(dh, from + i))), d, to + i);
  }
  for (; i < end; ++i) to[i] = static_cast<uint32_t>(from[i]) << 16;
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

HWY_EXPORT(ToBFloat16);
HWY_EXPORT(FromBFloat16);
using CastFn = void (*)(const void* in, void* out, int64_t begin, int64_t end);

CastFn FindCast(DType from, DType to) {
  if (from == DType::kF32 && to == DType::kBF16) return MILLRACE_SIMD_FUNCTION(ToBFloat16);
  if (from == DType::kBF16 && to == DType::kF32) return MILLRACE_SIMD_FUNCTION(FromBFloat16);
  return nullptr;
}

class CastKernel final : public Kernel {
 public:
  CastKernel(CastFn function, int64_t count, int threads)
      : function_(function), count_(count), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    ParallelFor(threads_, count_, count_, 64, [&](int64_t begin, int64_t end) {
      function_(args.inputs[0], args.outputs[0], begin, end);
    });
    return absl::OkStatus();
  }

 private:
  const CastFn function_;
  const int64_t count_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "Cast" || !HasOutput(query, 0)) return std::nullopt;
  if (FindCast(query.inputs[0]->dtype, query.outputs[0]->dtype) == nullptr) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  return std::make_unique<CastKernel>(FindCast(query.inputs[0]->dtype, query.outputs[0]->dtype),
                                      NumElements(query.outputs[0]->shape), request.threads);
}

}  // namespace

KernelFamily SimdCastFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
