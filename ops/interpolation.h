// Reading between the elements of an axis: what GridSample, DeformConv and RoiAlign share.
#ifndef MILLRACE_OPS_INTERPOLATION_H_
#define MILLRACE_OPS_INTERPOLATION_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/reference_dispatch.h"

namespace millrace {

inline constexpr int kMaxTaps = 4;

// The places along one axis that a coordinate reads, with weights.
struct AxisTaps {
  int count = 0;
  std::array<int64_t, kMaxTaps> places{};  // negative: outside, reads 0
  std::array<double, kMaxTaps> weights{};

  void Add(int64_t place, double weight) {
    places[count] = place;
    weights[count] = weight;
    ++count;
  }
};

// Between the two neighbours of `at` among places [0, size); what is outside reads 0.
inline AxisTaps LinearTaps(double at, int64_t size) {
  AxisTaps taps;
  if (!(at > -1 && at < static_cast<double>(size))) return taps;
  const double left = std::floor(at);
  const int64_t place = static_cast<int64_t>(left);
  const double ratio = at - left;
  if (place >= 0) taps.Add(place, 1 - ratio);
  if (place + 1 < size) taps.Add(place + 1, ratio);
  return taps;
}

// The sum of weight * read(row, column) over the taps of both axes.
template <typename Read>
double SumOfTaps(const AxisTaps& rows, const AxisTaps& columns, Read&& read) {
  double sum = 0;
  for (int i = 0; i < rows.count; ++i) {
    for (int j = 0; j < columns.count; ++j) {
      sum += rows.weights[i] * columns.weights[j] * read(rows.places[i], columns.places[j]);
    }
  }
  return sum;
}

// A value between elements as an element: integers are rounded to the nearest, halves away from
// zero, and saturate.
template <typename T>
T Rounded(double value) {
  if constexpr (kIsFloating<T>) {
    return Narrow<T>(value);
  } else {
    // The largest double that is a T: the next one up, where the largest T is none, is excluded.
    constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
    constexpr double kLimit = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
    const double rounded = std::round(value);
    if (std::isnan(rounded)) return 0;
    if (rounded >= kLimit) return std::numeric_limits<T>::max();
    return rounded <= kLowest ? std::numeric_limits<T>::lowest() : static_cast<T>(rounded);
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_INTERPOLATION_H_
