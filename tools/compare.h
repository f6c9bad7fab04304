// A tensor against what was expected, as numpy.allclose has it, and a tensor at a glance.
#ifndef MILLRACE_TOOLS_COMPARE_H_
#define MILLRACE_TOOLS_COMPARE_H_

#include <cstdint>
#include <string>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// An element agrees when |actual - expected| <= atol + rtol * |expected|, when both are NaN, or
// when both are the same infinity. Integers are compared exactly where int64 holds them.
struct Comparison {
  int64_t elements = 0;
  int64_t mismatches = 0;
  double max_absolute_error = 0;  // over elements that are finite in both
  double max_relative_error = 0;  // likewise, where expected is not 0
  int64_t worst = -1;             // row-major index of the mismatch furthest off; -1: none
};

// UsageError when the types differ.
absl::StatusOr<Comparison> Compare(const Tensor& actual, const Tensor& expected, double rtol,
                                   double atol);

// "[1,0,5]": the index of element `i` of `shape`.
std::string IndexText(const Shape& shape, int64_t i);

struct TensorStats {
  double min = 0, max = 0, mean = 0;  // of the finite elements
  int64_t not_finite = 0;
};
TensorStats StatsOf(const Tensor& tensor);

// Rows of `scores` [n, classes] whose greatest element (the first of equals) is at the index that
// `labels` (n elements) gives. Rows with index % every == remainder only.
struct Accuracy {
  int64_t right = 0;
  int64_t rows = 0;
};
Accuracy ArgMaxAccuracy(const Tensor& scores, const Tensor& labels, int64_t every = 1,
                        int64_t remainder = 0);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMPARE_H_
