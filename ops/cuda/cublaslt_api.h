// cuBLASLt as a table of entry points, like the driver (runtime/cuda/cuda_driver.h): loaded when it
// is needed, and tests put a recorder in its place. The table holds what the project uses.
#ifndef MILLRACE_OPS_CUDA_CUBLASLT_API_H_
#define MILLRACE_OPS_CUDA_CUBLASLT_API_H_

#include <cublasLt.h>

#include "graph/status.h"

namespace millrace {

#define MILLRACE_CUBLASLT_ENTRY_POINTS(X)                         \
  X(GetStatusString, cublasLtGetStatusString)                     \
  X(Create, cublasLtCreate)                                       \
  X(Destroy, cublasLtDestroy)                                     \
  X(DescCreate, cublasLtMatmulDescCreate)                         \
  X(DescDestroy, cublasLtMatmulDescDestroy)                       \
  X(DescSetAttribute, cublasLtMatmulDescSetAttribute)             \
  X(LayoutCreate, cublasLtMatrixLayoutCreate)                     \
  X(LayoutDestroy, cublasLtMatrixLayoutDestroy)                   \
  X(LayoutSetAttribute, cublasLtMatrixLayoutSetAttribute)         \
  X(PreferenceCreate, cublasLtMatmulPreferenceCreate)             \
  X(PreferenceDestroy, cublasLtMatmulPreferenceDestroy)           \
  X(PreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute) \
  X(GetHeuristic, cublasLtMatmulAlgoGetHeuristic)                 \
  X(Matmul, cublasLtMatmul)

struct CublasLtApi {
#define MILLRACE_CUBLASLT_FIELD(field, symbol) decltype(&::symbol) field = nullptr;
  MILLRACE_CUBLASLT_ENTRY_POINTS(MILLRACE_CUBLASLT_FIELD)
#undef MILLRACE_CUBLASLT_FIELD
};

// The machine's library, loaded once per process. DeviceError where there is none.
absl::StatusOr<const CublasLtApi*> LoadCublasLt();

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUBLASLT_API_H_
