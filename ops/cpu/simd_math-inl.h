// f32 vector math for every Highway target, and loads and stores of partial vectors. Included once
// per target (foreach_target.h).
//
// Accuracy, as tests/ops/cpu_simd_math_test.cc measures it against f64 over all ranges, in units in
// the last place: Log 1, Exp, Erf and Tanh 2, Softplus and Sigmoid 3, Gelu 5, with fused
// multiply-add; without (SSE4) up to 3, and Gelu 80 in its far left tail. GeluTanh loses up to 200
// there, where the exponent is itself a rounded polynomial. NaN gives NaN, infinities give the
// limits, results below the smallest normal are rounded, not flushed.
//
// The polynomials are minimax fits (Remez) of the function named beside them.
#if defined(MILLRACE_OPS_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_OPS_CPU_SIMD_MATH_INL_H_
#undef MILLRACE_OPS_CPU_SIMD_MATH_INL_H_
#else
#define MILLRACE_OPS_CPU_SIMD_MATH_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first `count` lanes from `p`, the others 0. Reads nothing beyond them. 0 < count < Lanes(d).
template <class D>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const float* p, size_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < count; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, count), d, p);
#endif
}

// Writes the first `count` lanes to `p` and nothing beyond them.
template <class D>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, float* p, size_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < count; ++i) p[i] = lanes[i];
#else
  hn::BlendedStore(v, hn::FirstN(d, count), d, p);
#endif
}

// c[0] + x c[1] + x^2 c[2] + ..., by Horner's rule.
template <class D, size_t kCount>
HWY_INLINE hn::Vec<D> Polynomial(D d, hn::Vec<D> x, const float (&c)[kCount]) {
  hn::Vec<D> sum = hn::Set(d, c[kCount - 1]);
  for (size_t i = kCount - 1; i-- > 0;) sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  return sum;
}

// 2^k for whole k in [-126, 127].
template <class D>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, hn::Vec<hn::RebindToSigned<D>> k) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(di, 127))));
}

// e^(x - n ln 2) for whole n next to x / ln 2. ln 2 is subtracted in two parts, the first short
// enough that n times it is exact.
template <class D>
HWY_INLINE hn::Vec<D> ExpOfRest(D d, hn::Vec<D> x, hn::Vec<D> n) {
  // (e^r - 1 - r) / r^2
  static constexpr float kCoefficients[] = {4.999999305e-01f, 1.666651479e-01f, 4.166845678e-02f,
                                            8.369418831e-03f, 1.381314493e-03f};
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  const auto tail = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, kCoefficients), r);
  return hn::Add(tail, hn::Set(d, 1.0f));
}

// e^x = 2^n e^r with r = x - n ln 2 in [-ln 2 / 2, ln 2 / 2]. 2^n is applied in two steps, so that
// neither overflows and a subnormal result is rounded once.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto clamped = hn::Min(hn::Max(x, hn::Set(d, -104.5f)), hn::Set(d, 89.0f));
  const auto n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  const auto power = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(power);
  auto y = hn::Mul(ExpOfRest(d, clamped, n), PowerOfTwo(d, half));
  y = hn::Mul(y, PowerOfTwo(d, hn::Sub(power, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// e^x for x <= 0, in two thirds of the time; 0 below -87, next to the smallest normal.
template <class D>
HWY_INLINE hn::Vec<D> ExpOfNegative(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  const auto y = hn::Mul(ExpOfRest(d, x, n), PowerOfTwo(d, hn::ConvertTo(di, n)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), y);
}

// log x = n ln 2 + log m with m in [sqrt(1/2), sqrt 2), and log(1 + f) = f - f^2 / 2 + f^3 P(f).
template <class D>
HWY_INLINE hn::Vec<D> Log(D d, hn::Vec<D> x) {
  // (log(1 + f) - f + f^2 / 2) / f^3
  static constexpr float kCoefficients[] = {3.333331253e-01f,  -2.500000952e-01f, 2.000212404e-01f,
                                            -1.666800544e-01f, 1.421943963e-01f,  -1.240532212e-01f,
                                            1.188878727e-01f,  -1.167769562e-01f, 6.747755051e-02f};
  const hn::RebindToSigned<D> di;
  const auto zero = hn::Zero(d), infinity = hn::Inf(d);
  const auto subnormal = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const auto scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 8388608.0f)), x);  // 2^23
  const auto bits = hn::BitCast(di, scaled);
  const auto n = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));  // of sqrt(1/2)
  const auto f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(n))), hn::Set(d, 1.0f));
  const auto power = hn::Sub(hn::ConvertTo(d, n), hn::IfThenElseZero(subnormal, hn::Set(d, 23.0f)));
  const auto square = hn::Mul(f, f);
  auto y = hn::Mul(hn::Mul(square, f), Polynomial(d, f, kCoefficients));
  y = hn::MulAdd(power, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(square, hn::Set(d, 0.5f), y);
  y = hn::MulAdd(power, hn::Set(d, 0.693359375f), hn::Add(f, y));
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, NAN), y);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, infinity)), x, y);
}

// Small |x|: odd polynomial. Else (1 - t) / (1 + t), t = e^(-2 |x|), which cancels nothing.
template <class D>
HWY_INLINE hn::Vec<D> Tanh(D d, hn::Vec<D> x) {
  // (tanh x - x) / x^3, by x^2
  static constexpr float kCoefficients[] = {-3.333331805e-01f, 1.333260169e-01f, -5.385385805e-02f,
                                            2.107775876e-02f, -6.282473818e-03f};
  const auto one = hn::Set(d, 1.0f);
  const auto size = hn::Abs(x);
  const auto square = hn::Mul(x, x);
  const auto small = hn::MulAdd(hn::Mul(x, square), Polynomial(d, square, kCoefficients), x);
  const auto t = Exp(d, hn::Mul(size, hn::Set(d, -2.0f)));
  const auto large = hn::Div(hn::Sub(one, t), hn::Add(one, t));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.55f)), small, hn::CopySign(large, x));
}

// factor * erfc(t) for t >= 0, as factor * (e^(t^2) erfc(t)) * e^(-t^2); the second factor is
// smooth and taken as a polynomial in (t - 3) / (t + 3). t^2 comes as square + rest, so that the
// exponential keeps its relative accuracy: an error of one unit in t^2 = 90 would be one of 90
// units in the result. The exponential comes last: it may be next to the smallest normal.
template <class D>
HWY_INLINE hn::Vec<D> ErfcTimes(D d, hn::Vec<D> factor, hn::Vec<D> t, hn::Vec<D> square,
                                hn::Vec<D> rest) {
  static constexpr float kCoefficients[] = {1.790011513e-01f,  -3.262335638e-01f, 2.456037971e-01f,
                                            -1.501157819e-01f, 7.166587199e-02f,  -2.439422515e-02f,
                                            4.268836304e-03f,  7.156784289e-04f,  -5.945184056e-04f,
                                            2.899388527e-05f,  5.596454525e-05f};
  const auto three = hn::Set(d, 3.0f);
  const auto u = hn::Div(hn::Sub(t, three), hn::Add(t, three));
  const auto scale = hn::Mul(factor, Polynomial(d, u, kCoefficients));
  const auto e = Exp(d, hn::Neg(square));
  return hn::Mul(hn::NegMulAdd(scale, rest, scale), e);
}

// Small |x|: odd polynomial. Else 1 - erfc|x|.
template <class D>
HWY_INLINE hn::Vec<D> Erf(D d, hn::Vec<D> x) {
  // erf(x) / x - 1, by x^2
  static constexpr float kCoefficients[] = {1.283791666e-01f,  -3.761263320e-01f, 1.128368635e-01f,
                                            -2.685885119e-02f, 5.199599798e-03f,  -8.125806038e-04f,
                                            8.296608224e-05f};
  const auto size = hn::Abs(x);
  const auto square = hn::Mul(x, x);
  const auto small = hn::MulAdd(x, Polynomial(d, square, kCoefficients), x);
  const auto one = hn::Set(d, 1.0f);
  const auto t = hn::Min(size, hn::Set(d, 10.3f));  // from where on erfc is no float
  const auto tail = ErfcTimes(d, one, t, hn::Mul(t, t), hn::Zero(d));
  const auto large = hn::CopySign(hn::Sub(one, tail), x);
  const auto y = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.9375f)), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// 1 / (1 + e^-x), from t = e^-|x|, so that the left tail keeps its relative accuracy.
template <class D>
HWY_INLINE hn::Vec<D> Sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto t = Exp(d, hn::Neg(hn::Abs(x)));
  const auto numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), t, one);
  return hn::Div(numerator, hn::Add(one, t));
}

// log(1 + e^x) = max(x, 0) + log(1 + t), t = e^-|x|. With u = 1 + t rounded, log(1 + t) is log u
// and what the rounding left over, (t - (u - 1)) / u.
template <class D>
HWY_INLINE hn::Vec<D> Softplus(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto t = Exp(d, hn::Neg(hn::Abs(x)));
  const auto u = hn::Add(one, t);
  const auto rest = hn::Div(hn::Sub(t, hn::Sub(u, one)), u);
  const auto y = hn::Add(hn::Max(x, hn::Zero(d)), hn::Add(Log(d, u), rest));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// e^x - 1 = 2 t / (1 - t), t = tanh(x / 2), for x <= 0, where nothing cancels.
template <class D>
HWY_INLINE hn::Vec<D> ExpMinus1(D d, hn::Vec<D> x) {
  const auto t = Tanh(d, hn::Mul(x, hn::Set(d, 0.5f)));
  return hn::Div(hn::Add(t, t), hn::Sub(hn::Set(d, 1.0f), t));
}

// x Phi(x), with Phi(-|x|) = erfc(|x| / sqrt 2) / 2. Below -14.5 the result is no float but 0.
template <class D>
HWY_INLINE hn::Vec<D> Gelu(D d, hn::Vec<D> x) {
  const auto half = hn::Set(d, 0.5f), limit = hn::Set(d, 14.5f);
  const auto negative = hn::Lt(x, hn::Zero(d));
  const auto size = hn::Min(hn::Abs(x), limit);
  const auto square = hn::Mul(size, size);
  const auto rest = hn::MulSub(size, size, square);
  const auto bounded = hn::Max(x, hn::Neg(limit));  // -inf times 0 would be NaN
  const auto tail = ErfcTimes(d, hn::IfThenElse(negative, hn::Mul(bounded, half), half),
                              hn::Mul(size, hn::Set(d, 0.707106781f)), hn::Mul(square, half),
                              hn::Mul(rest, half));
  const auto positive = hn::Mul(x, hn::Sub(hn::Set(d, 1.0f), tail));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(negative, tail, positive));
}

// x / 2 (1 + tanh z) = x Sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3).
template <class D>
HWY_INLINE hn::Vec<D> GeluTanh(D d, hn::Vec<D> x) {
  const auto bounded = hn::Max(x, hn::Set(d, -14.5f));
  const auto scaled = hn::Mul(bounded, hn::Set(d, 1.595769122f));  // 2 sqrt(2 / pi)
  const auto bend = hn::MulAdd(hn::Mul(bounded, bounded), hn::Set(d, 0.044715f), hn::Set(d, 1.0f));
  const auto y = hn::Mul(bounded, Sigmoid(d, hn::Mul(scaled, bend)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#endif  // MILLRACE_OPS_CPU_SIMD_MATH_INL_H_
