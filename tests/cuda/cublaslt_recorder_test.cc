// The recorder itself: each of the documentation's rules that is broken is found.
#include "tests/cuda_sim/cublaslt_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/cuda/cublaslt_matmul.h"
#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Asks the heuristic about D[4,2] = A[4,3] B[3,2] in f32, after `change` to what describes it.
struct Question {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  uint64_t a_rows = 4, a_columns = 3, b_rows = 3, d_columns = 2;
  int64_t a_ld = 4;
  int32_t d_batch = 1;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};

std::vector<std::string> Violations(CublasLtRecorder& recorder, const Question& q) {
  const CublasLtApi& api = recorder.api();
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  api.DescCreate(&desc, q.compute, CUDA_R_32F);
  api.DescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &q.epilogue, sizeof(q.epilogue));
  api.LayoutCreate(&a, CUDA_R_32F, q.a_rows, q.a_columns, q.a_ld);
  api.LayoutCreate(&b, CUDA_R_32F, q.b_rows, 2, static_cast<int64_t>(q.b_rows));
  api.LayoutCreate(&d, CUDA_R_32F, 4, q.d_columns, 4);
  api.LayoutSetAttribute(d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &q.d_batch, sizeof(q.d_batch));
  api.PreferenceCreate(&preference);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  api.GetHeuristic(nullptr, desc, a, b, d, d, preference, 1, &found, &count);
  EXPECT_EQ(count, 1);
  api.PreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t layout : {a, b, d}) api.LayoutDestroy(layout);
  api.DescDestroy(desc);
  return recorder.TakeViolations();
}

TEST(CublasLtRecorder, FindsWhatTheDocumentationForbids) {
  CudaSim sim;
  CublasLtRecorder recorder(sim);
  EXPECT_THAT(Violations(recorder, {}), IsEmpty());
  EXPECT_THAT(Violations(recorder, {.a_ld = 3}),
              Contains(AllOf(HasSubstr("leading dimension"), HasSubstr("MATRIX_LAYOUT_LD"))));
  EXPECT_THAT(Violations(recorder, {.b_rows = 5}), Contains(HasSubstr("inner sizes differ")));
  EXPECT_THAT(Violations(recorder, {.a_rows = 5, .a_ld = 5}), Contains(HasSubstr("rows of D")));
  EXPECT_THAT(Violations(recorder, {.d_columns = 3}), Contains(HasSubstr("columns of D")));
  EXPECT_THAT(Violations(recorder, {.d_batch = 2}), Contains(HasSubstr("batch counts differ")));
  EXPECT_THAT(Violations(recorder, {.compute = CUBLAS_COMPUTE_64F}),
              Contains(HasSubstr("compute type")));
  EXPECT_THAT(Violations(recorder, {.epilogue = CUBLASLT_EPILOGUE_DRELU}),
              Contains(HasSubstr("no such epilogue")));
}

// An algorithm for operands that are not aligned need not exist: then such operands are refused.
TEST(CublasLtRecorder, UnalignedOperandsWithoutAnAlgorithmAreRefused) {
  CudaSim sim;
  CublasLtRecorder recorder(sim);
  recorder.RefuseUnaligned();
  const auto device = CreateCudaDevice(sim.driver(), {});
  ASSERT_TRUE(device.ok()) << device.status();
  auto handle = CublasLtHandle::Create(recorder.api(), **device);
  ASSERT_TRUE(handle.ok()) << handle.status();
  const auto product = CublasLtMatMul::Prepare(*std::move(handle), {.m = 2, .n = 2, .k = 2});
  ASSERT_TRUE(product.ok()) << product.status();
  void* addresses[] = {reinterpret_cast<void*>(0x1004), reinterpret_cast<void*>(0x2000),
                       reinterpret_cast<void*>(0x3000), reinterpret_cast<void*>(0x4000)};
  EXPECT_THAT((*product)->Run(addresses, nullptr).ToString(), HasSubstr("unaligned operands"));
}

}  // namespace
}  // namespace millrace
