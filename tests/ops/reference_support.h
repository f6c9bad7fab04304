// Reference kernels on small tensors written out, for tests with values worked out by hand.
#ifndef MILLRACE_TESTS_OPS_REFERENCE_SUPPORT_H_
#define MILLRACE_TESTS_OPS_REFERENCE_SUPPORT_H_

#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ops/evaluate.h"

namespace millrace::optest {

// All results; failures are the test's.
inline std::vector<Tensor> RunAll(std::string_view op, const std::vector<Tensor>& inputs,
                                  const Attrs& attrs = {}, int num_outputs = 1) {
  auto results = RunReference(op, attrs, inputs, num_outputs);
  EXPECT_TRUE(results.ok()) << op << ": " << results.status();
  return results.ok() ? *results : std::vector<Tensor>(num_outputs, Tensor::Zeros({}));
}

inline Tensor Eval(std::string_view op, const std::vector<Tensor>& inputs,
                   const Attrs& attrs = {}) {
  return RunAll(op, inputs, attrs)[0];
}

inline Tensor F32(const Shape& shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(shape, values);
}
inline Tensor I64(const Shape& shape, std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>(shape, values);
}

// Every bit is that of `expected`.
MATCHER_P(Is, expected, "") {
  if (BitEqual(arg, expected)) return true;
  *result_listener << ToString(arg.type()) << ":";
  for (int64_t i = 0; i < arg.num_elements(); ++i) *result_listener << " " << arg.AsDouble(i);
  return false;
}

// Type and shape of `expected`, elements within `tolerance` * max(1, |expected|).
MATCHER_P2(IsNear, expected, tolerance, "") {
  if (MaxError(arg, expected) <= tolerance) return true;
  *result_listener << ToString(arg.type()) << ":";
  for (int64_t i = 0; i < arg.num_elements(); ++i) *result_listener << " " << arg.AsDouble(i);
  return false;
}

}  // namespace millrace::optest

#endif  // MILLRACE_TESTS_OPS_REFERENCE_SUPPORT_H_
