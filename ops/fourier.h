// Discrete Fourier transforms in f64, for DFT and STFT.
#ifndef MILLRACE_OPS_FOURIER_H_
#define MILLRACE_OPS_FOURIER_H_

#include <complex>
#include <vector>

namespace millrace {

// X[k] = sum over n of x[n] exp(-2 pi i k n / N); inverse: with the sign changed, divided by N.
// O(N log N) for powers of two, O(N^2) otherwise.
std::vector<std::complex<double>> FourierTransform(std::vector<std::complex<double>> x,
                                                   bool inverse);

}  // namespace millrace

#endif  // MILLRACE_OPS_FOURIER_H_
