// Elementwise ops as functions of one or two elements: what reference kernels and plain loops
// compute. Arguments are NativeType (f16 and bf16 as f32), but for kAdd, kSub and kMul, which get
// ComputeType, so that integers wrap around; where they are named double, f64.
#ifndef MILLRACE_OPS_SCALAR_FUNCTIONS_H_
#define MILLRACE_OPS_SCALAR_FUNCTIONS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include "ops/ordering.h"

namespace millrace {

inline constexpr auto kAdd = [](auto a, auto b) { return a + b; };
inline constexpr auto kSub = [](auto a, auto b) { return a - b; };
inline constexpr auto kMul = [](auto a, auto b) { return a * b; };

// Integers: 0 when divided by zero; the most negative one divided by -1 is itself.
inline constexpr auto kDivide = [](auto a, auto b) {
  using T = decltype(a);
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    if (b == 0) return T(0);
    if (std::is_signed_v<T> && b == T(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
};

// The remainder with the sign of a. Integers: 0 modulo zero.
inline constexpr auto kRemainder = [](auto a, auto b) {
  using T = decltype(a);
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    const bool none = b == 0 || (std::is_signed_v<T> && b == T(-1));  // % may not be asked
    return none ? T(0) : static_cast<T>(a % b);
  }
};
// With the sign of b, of integers.
inline constexpr auto kModulo = [](auto a, auto b) {
  using T = decltype(a);
  const T rest = kRemainder(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
};

// NaN wins, the first of equals stays.
inline constexpr auto kMax = [](auto a, auto b) { return kLargerFirst(b, a) ? b : a; };
inline constexpr auto kMin = [](auto a, auto b) { return kSmallerFirst(b, a) ? b : a; };

inline constexpr auto kEqual = [](auto a, auto b) { return a == b; };
inline constexpr auto kNotEqual = [](auto a, auto b) { return a != b; };
inline constexpr auto kLess = [](auto a, auto b) { return a < b; };
inline constexpr auto kLessOrEqual = [](auto a, auto b) { return a <= b; };
inline constexpr auto kGreater = [](auto a, auto b) { return a > b; };
inline constexpr auto kGreaterOrEqual = [](auto a, auto b) { return a >= b; };

// Of bools, and of the bits of integers.
inline constexpr auto kAnd = [](auto a, auto b) { return a & b; };
inline constexpr auto kOr = [](auto a, auto b) { return a | b; };
inline constexpr auto kXor = [](auto a, auto b) { return a ^ b; };

// slope * x below zero; integers wrap around.
inline constexpr auto kPRelu = [](auto x, auto slope) {
  using T = decltype(x);
  if constexpr (std::is_floating_point_v<T>) {
    return x < 0 ? x * slope : x;
  } else {
    const auto product = static_cast<uint64_t>(x) * static_cast<uint64_t>(slope);
    return std::is_signed_v<T> && x < T(0) ? static_cast<T>(product) : x;
  }
};

// 0 - x in integers wraps around: the most negative one is its own negative.
template <typename T>
T Negative(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return -x;
  } else {
    return static_cast<T>(0 - static_cast<uint64_t>(x));
  }
}

template <typename T>
T Magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else if constexpr (std::is_signed_v<T>) {
    return x < 0 ? Negative(x) : x;
  } else {
    return x;
  }
}

// NaN is its own sign.
template <typename T>
T SignOf(T x) {
  if (x == 0) return 0;
  if (x > 0) return 1;
  if constexpr (std::is_signed_v<T>) return x < 0 ? T(-1) : x;
  return x;
}

// exp(-|x|) does not overflow.
inline double SoftplusOf(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

inline constexpr double kGeluSqrtHalf = std::numbers::sqrt2 / 2;
inline constexpr double kGeluTanhScale =
    std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2/pi)
inline constexpr double kGeluCubic = 0.044715;

// x Phi(x), Phi being the standard normal distribution; of -inf its limit.
inline double GeluOf(double x) {
  if (std::isinf(x) && x < 0) return -0.0;
  return 0.5 * x * (1 + std::erf(x * kGeluSqrtHalf));
}
inline double GeluTanhOf(double x) {
  if (std::isinf(x) && x < 0) return -0.0;
  return 0.5 * x * (1 + std::tanh(kGeluTanhScale * (x + kGeluCubic * x * x * x)));
}

}  // namespace millrace

#endif  // MILLRACE_OPS_SCALAR_FUNCTIONS_H_
