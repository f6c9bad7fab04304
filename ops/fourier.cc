// Powers of two by the iterative radix-2 algorithm (Cooley and Tukey, 1965): elements in
// bit-reversed order, then butterflies of 2, 4, 8, ... Other lengths by the definition. Roots of
// unity come from one table of exact multiples of the angle, so that errors do not add up.
#include "ops/fourier.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace millrace {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> RootsOfUnity(size_t n, bool inverse) {
  std::vector<Complex> roots(n);
  const double turn = (inverse ? 2 : -2) * std::numbers::pi;
  for (size_t i = 0; i < n; ++i) {
    roots[i] = std::polar(1.0, turn * (static_cast<double>(i) / static_cast<double>(n)));
  }
  return roots;
}

std::vector<Complex> ByDefinition(const std::vector<Complex>& x,
                                  const std::vector<Complex>& roots) {
  const size_t n = x.size();
  std::vector<Complex> result(n);
  for (size_t k = 0; k < n; ++k) {
    size_t at = 0;
    for (size_t i = 0; i < n; ++i) {
      result[k] += x[i] * roots[at];
      at = at + k < n ? at + k : at + k - n;
    }
  }
  return result;
}

void ByHalves(std::vector<Complex>& x, const std::vector<Complex>& roots) {
  const size_t n = x.size();
  for (size_t i = 1, reversed = 0; i < n; ++i) {
    size_t bit = n / 2;
    for (; reversed & bit; bit /= 2) reversed ^= bit;
    reversed ^= bit;
    if (i < reversed) std::swap(x[i], x[reversed]);
  }
  for (size_t half = 1; half < n; half *= 2) {
    const size_t step = n / (2 * half);
    for (size_t begin = 0; begin < n; begin += 2 * half) {
      for (size_t i = 0; i < half; ++i) {
        const Complex odd = x[begin + half + i] * roots[i * step];
        x[begin + half + i] = x[begin + i] - odd;
        x[begin + i] += odd;
      }
    }
  }
}

}  // namespace

std::vector<Complex> FourierTransform(std::vector<Complex> x, bool inverse) {
  if (x.empty()) return x;
  const std::vector<Complex> roots = RootsOfUnity(x.size(), inverse);
  if (std::has_single_bit(x.size())) {
    ByHalves(x, roots);
  } else {
    x = ByDefinition(x, roots);
  }
  if (inverse) {
    for (Complex& element : x) element /= static_cast<double>(x.size());
  }
  return x;
}

}  // namespace millrace
