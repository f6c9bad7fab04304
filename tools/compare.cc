#include "tools/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_join.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// How far an element is off, as a multiple of what is tolerated; more than 1 is a mismatch.
double Excess(double actual, double expected, double rtol, double atol) {
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  if (actual == expected) return 0;
  if (!std::isfinite(actual) || !std::isfinite(expected)) {
    return std::numeric_limits<double>::infinity();
  }
  const double tolerance = atol + rtol * std::abs(expected);
  const double error = std::abs(actual - expected);
  return tolerance > 0 ? error / tolerance : std::numeric_limits<double>::infinity();
}

}  // namespace

absl::StatusOr<Comparison> Compare(const Tensor& actual, const Tensor& expected, double rtol,
                                   double atol) {
  if (!(actual.type() == expected.type())) {
    return UsageError(StrCat("types differ: expected ", ToString(expected.type()), ", found ",
                             ToString(actual.type())));
  }
  Comparison result;
  result.elements = actual.num_elements();
  const bool exact = !IsFloat(actual.dtype());
  double worst_excess = 0;
  for (int64_t i = 0; i < result.elements; ++i) {
    const double a = actual.AsDouble(i), e = expected.AsDouble(i);
    double excess = Excess(a, e, rtol, atol);
    // Beyond 2^53 doubles cannot tell integers apart.
    if (exact && excess == 0 && actual.AsInt64(i) != expected.AsInt64(i)) excess = 2;
    if (std::isfinite(a) && std::isfinite(e)) {
      const double error = std::abs(a - e);
      result.max_absolute_error = std::max(result.max_absolute_error, error);
      if (e != 0) {
        result.max_relative_error = std::max(result.max_relative_error, error / std::abs(e));
      }
    }
    if (excess <= 1) continue;
    ++result.mismatches;
    if (excess > worst_excess) {
      worst_excess = excess;
      result.worst = i;
    }
  }
  return result;
}

std::string IndexText(const Shape& shape, int64_t i) {
  Shape index = shape;
  for (int axis = shape.rank(); axis-- > 0;) {
    index[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return StrCat("[", absl::StrJoin(index.dims(), ","), "]");
}

TensorStats StatsOf(const Tensor& tensor) {
  TensorStats stats;
  int64_t finite = 0;
  const int64_t elements = tensor.num_elements();
  for (int64_t i = 0; i < elements; ++i) {
    const double x = tensor.AsDouble(i);
    if (!std::isfinite(x)) continue;
    stats.min = finite == 0 ? x : std::min(stats.min, x);
    stats.max = finite == 0 ? x : std::max(stats.max, x);
    stats.mean += (x - stats.mean) / static_cast<double>(++finite);
  }
  stats.not_finite = elements - finite;
  return stats;
}

Accuracy ArgMaxAccuracy(const Tensor& scores, const Tensor& labels, int64_t every,
                        int64_t remainder) {
  Accuracy accuracy;
  const int64_t classes = scores.shape()[1];
  for (int64_t row = remainder; row < scores.shape()[0]; row += every) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (scores.AsDouble(row * classes + c) > scores.AsDouble(row * classes + best)) best = c;
    }
    ++accuracy.rows;
    if (classes > 0 && labels.AsInt64(row) == best) ++accuracy.right;
  }
  return accuracy;
}

}  // namespace millrace
