// Products and convolutions of graphs as calls of cuBLASLt and cuDNN: their recorders check each
// call against the documentation and compute it on the simulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ops/evaluate_graph.h"
#include "tests/ops/evaluate.h"
#include "tests/run/run_graph.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CudaGraphRun {
  double max_error = 0;            // of outputs, against what the graph means
  std::vector<std::string> calls;  // of the libraries
};

// One step on random inputs.
CudaGraphRun RunOnCudaKernels(std::string_view text) {
  CudaGraphRun run;
  const absl::StatusOr<Graph> graph = TypedGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return run;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  NamedTensors inputs;
  std::vector<Tensor> in_order;
  for (const ValueId id : graph->inputs) {
    Tensor t = Tensor::Zeros(graph->value(id).type);
    for (int64_t i = 0; i < t.num_elements(); ++i) t.Set(i, uniform(random));
    inputs[graph->value(id).name] = t;
    in_order.push_back(t);
  }
  const auto expected = EvaluateGraph(*graph, in_order);
  EXPECT_TRUE(expected.ok()) << expected.status();
  const auto results =
      RunGraph(*graph, {inputs}, {.device_kind = "cuda", .own_kernels = true, .calls = &run.calls});
  EXPECT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; results.ok() && i < expected->size(); ++i) {
    run.max_error = std::max(run.max_error, optest::MaxError((*results)[0][i], (*expected)[i]));
  }
  return run;
}

class CublasLt : public ::testing::Test {
  void SetUp() override {
    if (RunnableKinds().size() < 2) GTEST_SKIP() << "built without CUDA";
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer knows nothing of fibers";
#endif
  }
};

TEST_F(CublasLt, ProductOfRowMajorMatrices) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input a : f32[5,3]
    input b : f32[3,4]
    y = MatMul(a, b)
    output y)");
  EXPECT_LE(run.max_error, 1e-6);
  EXPECT_THAT(run.calls, ElementsAre("f32 n x k x m = 4 x 3 x 5, op NN, epilogue none, batch 1"));
}

TEST_F(CublasLt, BatchesAndOneThatIsRepeated) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input a : f32[2,3,5,4]
    input b : f32[2,3,4,6]
    input c : f32[5,4]
    x = MatMul(a, b)
    y = MatMul(c, b)
    output x
    output y)");
  EXPECT_LE(run.max_error, 1e-6);
  EXPECT_THAT(run.calls, ElementsAre("f32 n x k x m = 6 x 4 x 5, op NN, epilogue none, batch 6",
                                     "f32 n x k x m = 6 x 4 x 5, op NN, epilogue none, batch 6"));
}

TEST_F(CublasLt, GemmTransposesScalesAndAddsC) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input a : f32[3,5]
    input b : f32[4,3]
    input c : f32[5,4]
    y = Gemm(a, b, c) {transA = 1, transB = 1, alpha = 0.5, beta = 2.0}
    output y)");
  EXPECT_LE(run.max_error, 1e-6);
  EXPECT_THAT(run.calls, ElementsAre("f32 n x k x m = 4 x 3 x 5, op TT, epilogue none, batch 1"));
}

// What follows a product is the library's epilogue where it has the same.
TEST_F(CublasLt, BiasAndReluAreAnEpilogue) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input a : f32[6,16]
    input b : f32[16,8]
    input c : f32[8]
    p = MatMul(a, b)
    s = Add(p, c)
    y = Relu(s)
    output y)");
  EXPECT_LE(run.max_error, 1e-6);
  ASSERT_EQ(run.calls.size(), 1u);
  EXPECT_THAT(run.calls[0], HasSubstr("epilogue bias+relu"));
}

// Any other epilogue runs after it.
TEST_F(CublasLt, OtherEpiloguesAreLaunchesOfTheirOwn) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input a : f32[6,16]
    input b : f32[16,8]
    input c : f32[6,8]
    p = MatMul(a, b)
    g = Sigmoid(p)
    y = Add(g, c)
    output y)");
  EXPECT_LE(run.max_error, 1e-6);
  ASSERT_EQ(run.calls.size(), 1u);
  EXPECT_THAT(run.calls[0], HasSubstr("epilogue none"));
}

using CudnnCalls = CublasLt;

TEST_F(CudnnCalls, ConvolutionsOfTwoAndOfOneDim) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input x : f32[2,4,7,6]
    input w : f32[6,2,3,3]
    input s : f32[2,3,9]
    input v : f32[4,3,3]
    y = Conv(x, w) {group = 2, pads = [1, 1, 1, 1], strides = [2, 1]}
    z = Conv(s, v) {dilations = [2]}
    output y
    output z)");
  EXPECT_LE(run.max_error, 1e-5);
  EXPECT_THAT(run.calls, ElementsAre("forward", "forward"));
}

TEST_F(CudnnCalls, BiasResidualAndReluAreOneCall) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input x : f32[1,8,12,12]
    input w : f32[8,8,3,3]
    input b : f32[8]
    input r : f32[1,8,12,12]
    c = Conv(x, w, b) {pads = [1, 1, 1, 1]}
    s = Add(c, r)
    y = Relu(s)
    output y)");
  EXPECT_LE(run.max_error, 1e-5);
  EXPECT_THAT(run.calls, ElementsAre("forward bias residual relu"));
}

TEST_F(CudnnCalls, BothGradients) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input x : f32[2,3,8,8]
    input w : f32[4,3,3,3]
    input d : f32[2,4,4,4]
    dx = grad.ConvInput(d, w) {input_shape = [8, 8], pads = [1, 1, 1, 1], strides = [2, 2]}
    dw = grad.ConvWeight(x, d) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}
    output dx
    output dw)");
  EXPECT_LE(run.max_error, 1e-5);
  EXPECT_THAT(run.calls, ElementsAre("backward data", "backward filter"));
}

// Pads that differ by side are no convolution to the library: a kernel of our own serves.
TEST_F(CudnnCalls, UnevenPadsAreNotTheLibrarys) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input x : f32[1,2,6,6]
    input w : f32[2,2,3,3]
    y = Conv(x, w) {pads = [0, 0, 2, 2]}
    output y)");
  EXPECT_LE(run.max_error, 1e-5);
  EXPECT_THAT(run.calls, ElementsAre());
}

}  // namespace
}  // namespace millrace
