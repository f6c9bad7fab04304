// The accuracy that simd_math-inl.h states, for each instruction set this processor has: every
// 4001st float there is goes through each function, and the result is compared with the function in
// f64, in units in the last place of the right result.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "gtest/gtest.h"
#include "ops/cpu/simd_targets.h"
// Highway must see what the line above leaves out.
#include "hwy/highway.h"
#include "ops/cpu/cpu_kernels.h"
#include "tests/ops/cpu_kernel_runner.h"

namespace millrace {
namespace {

// Distance between consecutive floats at `x`; at least the smallest subnormal.
double UnitInLastPlace(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

double GeluOf(double x) { return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2); }
double GeluTanhOf(double x) {
  const double z = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * z));
}
double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }
double SoftplusOf(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

struct Function {
  const char* op;
  const char* approximate;  // of Gelu
  double (*exact)(double);
  double max_ulp;         // with fused multiply-add
  double max_ulp_no_fma;  // SSE4
};

std::vector<float> Sample() {
  std::vector<float> sample;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4001) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(x)) sample.push_back(x);
  }
  return sample;
}

class SimdMath : public testing::TestWithParam<Function> {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(SimdMath, IsWithinItsStatedError) {
  const Function& f = GetParam();
  std::vector<float> x = Sample(), y(x.size());
  const Tensor in = Tensor::FromSpan<float>({static_cast<int64_t>(x.size())}, x);
  Attrs attrs;
  if (f.approximate != nullptr) attrs.Set("approximate", std::string(f.approximate));
  const KernelCase c = MakeCase(f.op, attrs, {in});
  const KernelVariant variant = OfferedVariant(c, "simd");
  std::vector<double> exact(x.size());
  for (size_t i = 0; i < x.size(); ++i) exact[i] = f.exact(x[i]);
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const auto kernel = *CreateCpuKernelLibrary()->Prepare(RequestFor(c, variant));
    void* inputs[] = {x.data()};
    void* outputs[] = {y.data()};
    ASSERT_TRUE(kernel->Run({.inputs = inputs, .outputs = outputs}).ok());
    double worst = 0;
    float worst_at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(exact[i])) {
        ASSERT_TRUE(std::isnan(y[i])) << f.op << "(" << x[i] << ") = " << y[i];
        continue;
      }
      if (std::abs(exact[i]) > std::numeric_limits<float>::max()) {
        ASSERT_TRUE(std::isinf(y[i])) << f.op << "(" << x[i] << ") = " << y[i];
        continue;
      }
      const double error = std::abs(y[i] - exact[i]) / UnitInLastPlace(exact[i]);
      if (!(error <= worst)) {
        worst = error;
        worst_at = x[i];
      }
    }
    const bool fma = target != HWY_SSE4 && target != HWY_SCALAR;
    EXPECT_LE(worst, fma ? f.max_ulp : f.max_ulp_no_fma)
        << hwy::TargetName(target) << " " << f.op << "(" << worst_at << ")";
    RecordProperty(hwy::TargetName(target), std::to_string(worst));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SimdMath,
                         testing::Values(Function{"Exp", nullptr, std::exp, 2, 2},
                                         Function{"Log", nullptr, std::log, 1, 2},
                                         Function{"Softplus", nullptr, SoftplusOf, 3, 3},
                                         Function{"Erf", nullptr, std::erf, 2, 3},
                                         Function{"Tanh", nullptr, std::tanh, 2, 3},
                                         Function{"Sigmoid", nullptr, SigmoidOf, 3, 3},
                                         Function{"Gelu", "none", GeluOf, 5, 80},
                                         Function{"Gelu", "tanh", GeluTanhOf, 200, 200}),
                         [](const auto& info) {
                           return std::string(info.param.op) +
                                  (info.param.approximate ? info.param.approximate : "");
                         });

}  // namespace
}  // namespace millrace
