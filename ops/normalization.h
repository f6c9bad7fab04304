// What the normalizations share: mean and variance of some elements, and the gradient through
//   z = (x - mean(x)) r,  r = 1 / sqrt(variance(x) + epsilon).
#ifndef MILLRACE_OPS_NORMALIZATION_H_
#define MILLRACE_OPS_NORMALIZATION_H_

#include <cmath>
#include <span>

#include "ops/gradient.h"
#include "ops/op_def.h"

namespace millrace {

inline constexpr double kNormalizationEpsilon = 1e-5;
AttrSpec EpsilonAttr();

// Of the population. `visit(f)` calls f(double) for each of `count` elements.
struct Moments {
  double mean = 0, variance = 0;
};
template <typename Visit>
Moments MomentsOf(int64_t count, Visit&& visit) {
  Moments m;
  visit([&](double x) { m.mean += x; });
  m.mean /= static_cast<double>(count);
  visit([&](double x) { m.variance += (x - m.mean) * (x - m.mean); });
  m.variance /= static_cast<double>(count);
  return m;
}
// Of `count` elements that lie one after another.
template <typename T>
Moments MomentsOf(const T* x, int64_t count) {
  return MomentsOf(count, [&](auto&& f) {
    for (int64_t i = 0; i < count; ++i) f(static_cast<double>(x[i]));
  });
}

// For each element: the sums for mean and variance (1 + 3), and the result (4).
Work NormalizationWork(const NodeQuery& query);

// Means over `axes`, which stay as dims of 1.
Term Mean(const Term& x, std::span<const int64_t> axes);
Term InverseRoot(const Term& variance, double epsilon);  // r

struct Standardized {
  Term z, r;
};
Standardized Standardize(const Term& x, std::span<const int64_t> axes, double epsilon);
// What flows back to x when `g` flows back to z: r (g - mean(g) - z mean(g z)).
Term StandardizeGrad(const Standardized& s, const Term& g, std::span<const int64_t> axes);

}  // namespace millrace

#endif  // MILLRACE_OPS_NORMALIZATION_H_
