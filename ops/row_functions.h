// What becomes of a row of elements in a reduction: functions of a std::vector of NativeType
// (floats, or integers). Sums and products of floats are f64, of integers modulo 2^64; what is no
// integer is f64. NaN is never passed over.
#ifndef MILLRACE_OPS_ROW_FUNCTIONS_H_
#define MILLRACE_OPS_ROW_FUNCTIONS_H_

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "ops/ordering.h"
#include "ops/reference_dispatch.h"

namespace millrace {

// Sum of map(x) over a row: of floats as double, of integers modulo 2^64.
template <typename Row, typename F>
auto SumOf(const Row& row, F&& map) {
  using Sum = SumType<typename Row::value_type>;
  Sum sum = 0;
  for (auto x : row) sum += map(static_cast<Sum>(x));
  return sum;
}

template <typename Row>
double DoubleSum(const Row& row) {
  double sum = 0;
  for (auto x : row) sum += static_cast<double>(x);
  return sum;
}

inline constexpr auto kSumOf = [](const auto& row) { return SumOf(row, [](auto x) { return x; }); };
inline constexpr auto kSumSquareOf = [](const auto& row) {
  return SumOf(row, [](auto x) { return x * x; });
};
inline constexpr auto kMeanOf = [](const auto& row) {
  return DoubleSum(row) / static_cast<double>(row.size());
};
inline constexpr auto kProductOf = [](const auto& row) {
  SumType<typename std::decay_t<decltype(row)>::value_type> product = 1;
  for (auto x : row) product *= static_cast<decltype(product)>(x);
  return product;
};
inline constexpr auto kL1Of = [](const auto& row) {
  using T = typename std::decay_t<decltype(row)>::value_type;
  SumType<T> sum = 0;
  for (T x : row) {
    const auto wide = static_cast<SumType<T>>(x);
    sum += std::is_signed_v<T> && std::signbit(static_cast<double>(x)) ? -wide : wide;
  }
  return sum;
};
inline constexpr auto kL2Of = [](const auto& row) {
  double sum = 0;
  for (auto x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
};
inline constexpr auto kLogSumOf = [](const auto& row) { return std::log(DoubleSum(row)); };
// `nothing` if the row is empty.
template <auto kGoesFirst, typename Row, typename T>
T FirstOf(const Row& row, T nothing) {
  if (row.empty()) return nothing;
  T first = row[0];
  for (T x : row) first = kGoesFirst(x, first) ? x : first;
  return first;
}
// Exponentials are taken relative to the largest, so that none overflows.
inline constexpr auto kLogSumExpOf = [](const auto& row) {
  if (row.empty()) return -std::numeric_limits<double>::infinity();
  const auto largest = static_cast<double>(FirstOf<kLargerFirst>(row, row[0]));
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (auto x : row) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
};

template <typename T>
T Lowest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}
template <typename T>
T Highest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}
inline constexpr auto kLargestOf = [](const auto& row) {
  return FirstOf<kLargerFirst>(row, Lowest<typename std::decay_t<decltype(row)>::value_type>());
};
inline constexpr auto kSmallestOf = [](const auto& row) {
  return FirstOf<kSmallerFirst>(row, Highest<typename std::decay_t<decltype(row)>::value_type>());
};

}  // namespace millrace

#endif  // MILLRACE_OPS_ROW_FUNCTIONS_H_
