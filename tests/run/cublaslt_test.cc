// Products of graphs as calls of cuBLASLt: its recorder checks each call against the documentation
// and computes it on the simulated GPU.
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
  double max_error = 0;               // of outputs, against what the graph means
  std::vector<std::string> products;  // that cuBLASLt was asked for
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
  const auto results = RunGraph(
      *graph, {inputs}, {.device_kind = "cuda", .own_kernels = true, .products = &run.products});
  EXPECT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; results.ok() && i < expected->size(); ++i) {
    run.max_error = std::max(run.max_error, optest::MaxError((*results)[0][i], (*expected)[i]));
  }
  return run;
}

class CublasLt : public ::testing::Test {
  void SetUp() override {
    if (RunnableKinds().size() < 2) GTEST_SKIP() << "built without CUDA";
  }
};

TEST_F(CublasLt, ProductOfRowMajorMatrices) {
  const CudaGraphRun run = RunOnCudaKernels(R"(
    input a : f32[5,3]
    input b : f32[3,4]
    y = MatMul(a, b)
    output y)");
  EXPECT_LE(run.max_error, 1e-6);
  EXPECT_THAT(run.products,
              ElementsAre("f32 n x k x m = 4 x 3 x 5, op NN, epilogue none, batch 1"));
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
  EXPECT_THAT(run.products,
              ElementsAre("f32 n x k x m = 6 x 4 x 5, op NN, epilogue none, batch 6",
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
  EXPECT_THAT(run.products,
              ElementsAre("f32 n x k x m = 4 x 3 x 5, op TT, epilogue none, batch 1"));
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
  ASSERT_EQ(run.products.size(), 1u);
  EXPECT_THAT(run.products[0], HasSubstr("epilogue bias+relu"));
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
  ASSERT_EQ(run.products.size(), 1u);
  EXPECT_THAT(run.products[0], HasSubstr("epilogue none"));
}

}  // namespace
}  // namespace millrace
