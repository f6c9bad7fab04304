// Whole graphs on the kernels of ops/cuda: compiled for the cuda target, run on the simulated
// driver, which runs the kernels' sources by the SIMT shim on its own memory and knows what they
// touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/evaluate_graph.h"
#include "tests/ops/evaluate.h"
#include "tests/run/run_graph.h"

namespace millrace {
namespace {

// What a graph gives on the simulated GPU, next to what it means.
void ExpectClose(std::string_view text, const NamedTensors& inputs, double tolerance) {
  if (RunnableKinds().size() < 2) GTEST_SKIP() << "built without CUDA";
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer knows nothing of fibers";
#endif
  const absl::StatusOr<Graph> graph = TypedGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<Tensor> in_order;
  for (const ValueId id : graph->inputs) in_order.push_back(inputs.at(graph->value(id).name));
  const auto expected = EvaluateGraph(*graph, in_order);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const uint64_t seed : {0, 1, 2}) {
    RunOptions options = {.device_kind = "cuda", .own_kernels = true, .seed = seed};
    const auto results = RunGraph(*graph, {inputs, inputs}, options);
    ASSERT_TRUE(results.ok()) << results.status();
    for (const std::vector<Tensor>& step : *results) {
      for (size_t i = 0; i < expected->size(); ++i) {
        EXPECT_LE(optest::MaxError(step[i], (*expected)[i]), tolerance) << "output " << i;
      }
    }
  }
}

Tensor Ramp(const Shape& shape) {
  Tensor t = Tensor::Zeros({DType::kF32, shape});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, static_cast<double>(i % 17) / 8 - 1);
  return t;
}

TEST(CudaKernels, FusedChainsAndRows) {
  ExpectClose(R"(
    input x : f32[6,40]
    input b : f32[40]
    y = Add(x, b)
    g = Gelu(y)
    s = Softmax(g)
    m = ReduceMean(s) {keepdims = 0}
    output s
    output m)",
              {{"x", Ramp({6, 40})}, {"b", Ramp({40})}}, 1e-5);
}

TEST(CudaKernels, ElementsThatMove) {
  ExpectClose(R"(
    input x : f32[4,6,8]
    t = Transpose(x) {perm = [2, 0, 1]}
    f = Flatten(t)
    r = Relu(f)
    c = Concat(r, f) {axis = 1}
    output c)",
              {{"x", Ramp({4, 6, 8})}}, 0);
}

// An op without a kernel for GPUs runs on the host, between ops that have one.
TEST(CudaKernels, HostBetween) {
  ExpectClose(R"(
    input x : f32[3,5]
    y = Exp(x)
    h = LpNormalization(y)
    z = Neg(h)
    output z)",
              {{"x", Ramp({3, 5})}}, 1e-5);
}

}  // namespace
}  // namespace millrace
