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

// A vector's worth of neighbouring elements, or fewer.
struct Span {
  size_t count;

  HWY_INLINE hn::Vec<hn::ScalableTag<float>> Load(const float* p) const {
    const hn::ScalableTag<float> d;
    return count == hn::Lanes(d) ? hn::LoadU(d, p) : LoadFirst(d, p, count);
  }
  HWY_INLINE void Store(hn::Vec<hn::ScalableTag<float>> v, float* p) const {
    const hn::ScalableTag<float> d;
    if (count == hn::Lanes(d)) {
      hn::StoreU(v, d, p);
    } else {
      StoreFirst(v, d, p, count);
    }
  }
};

// f(index, span) for spans that cover [0, count).
template <class F>
HWY_INLINE void ForEachSpan(int64_t count, F f) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) f(i, Span{static_cast<size_t>(lanes)});
  if (i < count) f(i, Span{static_cast<size_t>(count - i)});
}

// Sum of the lanes of whole(i) for whole vectors of [0, count), and of the first n lanes of
// first(i, n) for the last few. f32 lanes are added up in f64 every kBlock elements, so that the
// error does not grow with the length of the row.
template <class Whole, class First>
HWY_INLINE double BlockSum(size_t count, Whole whole, First first) {
  constexpr size_t kBlock = 4096;
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  double total = 0;
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t end = HWY_MIN(start + kBlock, count);
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    size_t i = start;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = hn::Add(s0, whole(i));
      s1 = hn::Add(s1, whole(i + lanes));
      s2 = hn::Add(s2, whole(i + 2 * lanes));
      s3 = hn::Add(s3, whole(i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) s0 = hn::Add(s0, whole(i));
    if (i < end) {
      s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, end - i), first(i, end - i)));
    }
    const auto sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

// Sum of map(x[i]) over a row.
template <class Map>
HWY_INLINE double RowSum(const float* x, size_t count, Map map) {
  const hn::ScalableTag<float> d;
  return BlockSum(
      count, [&](size_t i) HWY_ATTR { return map(hn::LoadU(d, x + i)); },
      [&](size_t i, size_t n) HWY_ATTR { return map(LoadFirst(d, x + i, n)); });
}

// Sum of map(x[i], y[i]).
template <class Map>
HWY_INLINE double RowSum(const float* x, const float* y, size_t count, Map map) {
  const hn::ScalableTag<float> d;
  return BlockSum(
      count, [&](size_t i) HWY_ATTR { return map(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); },
      [&](size_t i, size_t n)
          HWY_ATTR { return map(LoadFirst(d, x + i, n), LoadFirst(d, y + i, n)); });
}

// z[i] = map(x[i], y[i])
template <class Map>
HWY_INLINE void RowMap(const float* x, const float* y, float* z, size_t count, Map map) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(map(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, z + i);
  }
  if (i == count) return;
  const size_t n = count - i;
  StoreFirst(map(LoadFirst(d, x + i, n), LoadFirst(d, y + i, n)), d, z + i, n);
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
