// Maps, sums and maxima of rows of f32, for every Highway target. Included once per target.
#if defined(MILLRACE_OPS_CPU_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_OPS_CPU_SIMD_ROWS_INL_H_
#undef MILLRACE_OPS_CPU_SIMD_ROWS_INL_H_
#else
#define MILLRACE_OPS_CPU_SIMD_ROWS_INL_H_
#endif

#include <cstdint>

#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// out[i] = op(in[i]): whole vectors and one partial one. `out` may be `in`.
template <class Op>
HWY_INLINE void UnaryRow(const float* in, float* out, size_t count, Op op) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = op(hn::LoadU(d, in + i)), b = op(hn::LoadU(d, in + i + lanes));
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
  }
  for (; i + lanes <= count; i += lanes) hn::StoreU(op(hn::LoadU(d, in + i)), d, out + i);
  if (i < count) StoreFirst(op(LoadFirst(d, in + i, count - i)), d, out + i, count - i);
}

// Sum of map(x[i]) over a row. f32 lanes are added up in f64 every kBlock elements, so that the
// error does not grow with the length of the row. map(0) is not added for the lanes beyond the end.
template <class Map>
HWY_INLINE double RowSum(const float* x, size_t count, Map map) {
  constexpr size_t kBlock = 4096;
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  double total = 0;
  for (size_t start = 0; start < count; start += kBlock) {
    const float* p = x + start;
    const size_t n = HWY_MIN(kBlock, count - start);
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      s0 = hn::Add(s0, map(hn::LoadU(d, p + i)));
      s1 = hn::Add(s1, map(hn::LoadU(d, p + i + lanes)));
      s2 = hn::Add(s2, map(hn::LoadU(d, p + i + 2 * lanes)));
      s3 = hn::Add(s3, map(hn::LoadU(d, p + i + 3 * lanes)));
    }
    for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, map(hn::LoadU(d, p + i)));
    if (i < n) {
      const auto last = map(LoadFirst(d, p + i, n - i));
      s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, n - i), last));
    }
    const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

// The largest element of a row of at least one. NaNs may or may not be passed over.
HWY_INLINE float RowMax(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto m0 = hn::Set(d, x[0]), m1 = m0;
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
  }
  for (; i + lanes <= count; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < count) {
    const auto last = LoadFirst(d, x + i, count - i);
    m1 = hn::IfThenElse(hn::FirstN(d, count - i), hn::Max(m1, last), m1);
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_OPS_CPU_SIMD_ROWS_INL_H_
