// From a run-time DType to a C++ type, and the arithmetic reference kernels do in it: integers wrap
// around, f16 and bf16 are computed in f32 and rounded once, sums of floats are kept in f64.
#ifndef MILLRACE_OPS_REFERENCE_DISPATCH_H_
#define MILLRACE_OPS_REFERENCE_DISPATCH_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "graph/half.h"
#include "graph/status.h"
#include "graph/strings.h"
#include "graph/types.h"

namespace millrace {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T>
inline constexpr bool kIsFloating = std::is_floating_point_v<T> || kIsHalf<T>;

// What arithmetic on T is done in. Integers as u64: products and sums of any width are then
// defined, and narrowing the result to T wraps it around.
template <typename T>
using ComputeType =
    std::conditional_t<kIsHalf<T>, float, std::conditional_t<kIsFloating<T>, T, uint64_t>>;
// What sums of T are kept in.
template <typename T>
using SumType = std::conditional_t<kIsFloating<T>, double, uint64_t>;

// T itself; f32 for f16 and bf16, which have no arithmetic.
template <typename T>
using NativeType = std::conditional_t<kIsHalf<T>, float, T>;

// `x` as a float from which rounding to fewer bits gives what rounding `x` itself would: inexact
// results are rounded to odd, so that they never look like a tie.
inline float RoundToOdd(double x) {
  const float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || std::isnan(f)) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::isinf(f) || std::abs(static_cast<double>(f)) > std::abs(x)) --bits;  // truncated
  return std::bit_cast<float>(bits | 1);
}

// A result in ComputeType or SumType as a T: rounded once, or wrapped around.
template <typename T, typename From>
T Narrow(From value) {
  if constexpr (kIsHalf<T> && std::is_same_v<From, double>) {
    return T(RoundToOdd(value));
  } else {
    return static_cast<T>(value);
  }
}

// Cast's conversion. Floats are rounded to nearest even, once; a float that is out of an integer's
// range becomes the nearest integer there is, NaN becomes 0; integers wrap around; anything but 0
// is true.
template <typename To, typename From>
To ConvertTo(From from) {
  if constexpr (kIsHalf<From>) {
    return ConvertTo<To>(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != 0;
  } else if constexpr (kIsHalf<To>) {
    return Narrow<To>(static_cast<double>(from));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(from)) return 0;
    // The limits as From: max() rounds up to a power of two where From has too few digits.
    if (from <= static_cast<From>(Limits::min())) return Limits::min();
    if (from >= static_cast<From>(Limits::max())) return Limits::max();
    return static_cast<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

template <typename T>
struct TypeTag {
  using type = T;
};

// f(TypeTag<T>{}) -> absl::Status with the element type of `dtype`. A dtype outside the family is
// an InternalError: inference lets none through.
template <typename F>
absl::Status VisitFloats(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF16:
      return f(TypeTag<Half>{});
    case DType::kBF16:
      return f(TypeTag<BFloat16>{});
    case DType::kF32:
      return f(TypeTag<float>{});
    case DType::kF64:
      return f(TypeTag<double>{});
    default:
      return InternalError(StrCat("no reference for ", DTypeName(dtype)));
  }
}

template <typename F>
absl::Status VisitIntegers(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI8:
      return f(TypeTag<int8_t>{});
    case DType::kU8:
      return f(TypeTag<uint8_t>{});
    case DType::kI16:
      return f(TypeTag<int16_t>{});
    case DType::kU16:
      return f(TypeTag<uint16_t>{});
    case DType::kI32:
      return f(TypeTag<int32_t>{});
    case DType::kU32:
      return f(TypeTag<uint32_t>{});
    case DType::kI64:
      return f(TypeTag<int64_t>{});
    case DType::kU64:
      return f(TypeTag<uint64_t>{});
    default:
      return InternalError(StrCat("no reference for ", DTypeName(dtype)));
  }
}

template <typename F>
absl::Status VisitNumeric(DType dtype, F&& f) {
  return IsFloat(dtype) ? VisitFloats(dtype, f) : VisitIntegers(dtype, f);
}

template <typename F>
absl::Status VisitAll(DType dtype, F&& f) {
  return dtype == DType::kBool ? f(TypeTag<bool>{}) : VisitNumeric(dtype, f);
}

}  // namespace millrace

#endif  // MILLRACE_OPS_REFERENCE_DISPATCH_H_
