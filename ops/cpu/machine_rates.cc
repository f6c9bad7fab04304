#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/machine_rates.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains that do not wait for each other: more than latency times issue width of any
// processor at hand (4 cycles, 2 a cycle), and as many as fit beside the two factors in 16
// registers. Values tend to a fixed point, so that nothing overflows or becomes denormal.
template <typename T>
double Burn(int64_t rounds) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, T{0.5}), addend = hn::Set(d, T{0.25});
  auto a0 = hn::Set(d, T{0}), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0;
  auto a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, addend);
    a1 = hn::MulAdd(a1, factor, addend);
    a2 = hn::MulAdd(a2, factor, addend);
    a3 = hn::MulAdd(a3, factor, addend);
    a4 = hn::MulAdd(a4, factor, addend);
    a5 = hn::MulAdd(a5, factor, addend);
    a6 = hn::MulAdd(a6, factor, addend);
    a7 = hn::MulAdd(a7, factor, addend);
    a8 = hn::MulAdd(a8, factor, addend);
    a9 = hn::MulAdd(a9, factor, addend);
    a10 = hn::MulAdd(a10, factor, addend);
    a11 = hn::MulAdd(a11, factor, addend);
  }
  // The sum is used, or the loop would be left out.
  const auto sum = hn::Add(
      hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7))),
      hn::Add(hn::Add(a8, a9), hn::Add(a10, a11)));
  const volatile T used = hn::GetLane(sum);
  static_cast<void>(used);
  return static_cast<double>(rounds) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

double BurnF32(int64_t rounds) { return Burn<float>(rounds); }
double BurnF64(int64_t rounds) { return Burn<double>(rounds); }

void Stream(const float* from, float* to, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto two = hn::Set(d, 2.0f);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, from + i), two), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[i] * 2;
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>

#include "graph/assert.h"
#include "ops/cpu/machine_rates.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {

HWY_EXPORT(BurnF32);
HWY_EXPORT(BurnF64);
HWY_EXPORT(Stream);

double BurnFlops(DType dtype, int64_t rounds, int threads) {
  MILLRACE_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  const auto burn =
      dtype == DType::kF32 ? MILLRACE_SIMD_FUNCTION(BurnF32) : MILLRACE_SIMD_FUNCTION(BurnF64);
  std::atomic<double> total{0};
  ParallelFor(threads, threads, /*steps=*/2 * kTeamGrain, /*unit=*/1,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) total.fetch_add(burn(rounds));
              });
  return total;
}

void StreamFloats(const float* from, float* to, int64_t count, int threads) {
  const auto stream = MILLRACE_SIMD_FUNCTION(Stream);
  ParallelFor(threads, count, count, /*unit=*/64,
              [&](int64_t begin, int64_t end) { stream(from + begin, to + begin, end - begin); });
}

}  // namespace millrace
#endif  // HWY_ONCE
