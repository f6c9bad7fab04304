// A CudaMatMul prepared for a device, so that running it is one call.
#ifndef MILLRACE_OPS_CUDA_CUBLASLT_MATMUL_H_
#define MILLRACE_OPS_CUDA_CUBLASLT_MATMUL_H_

#include <memory>
#include <optional>
#include <span>

#include "ops/cuda/cublaslt_api.h"
#include "ops/cuda/cuda_matmul.h"
#include "runtime/device.h"

namespace millrace {

// The library's handle for a device; its products share it.
class CublasLtHandle {
 public:
  // `api` and `device` outlive it.
  static absl::StatusOr<std::shared_ptr<CublasLtHandle>> Create(const CublasLtApi& api,
                                                                Device& device);
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;

  const CublasLtApi& api() const { return api_; }
  cublasLtHandle_t native() const { return handle_; }

 private:
  CublasLtHandle(const CublasLtApi& api, Device& device) : api_(api), device_(device) {}

  const CublasLtApi& api_;
  Device& device_;
  cublasLtHandle_t handle_ = nullptr;
};

class CublasLtMatMul {
 public:
  // The device's context is current. The algorithm is the first that the library's heuristic names:
  // one for operands that are aligned to 16 bytes, one for any.
  static absl::StatusOr<std::unique_ptr<CublasLtMatMul>> Prepare(
      std::shared_ptr<CublasLtHandle> handle, const CudaMatMul& call);
  ~CublasLtMatMul();
  CublasLtMatMul(const CublasLtMatMul&) = delete;
  CublasLtMatMul& operator=(const CublasLtMatMul&) = delete;

  // `addresses`: of the launch's parameters (cuda_matmul.h).
  absl::Status Run(std::span<void* const> addresses, void* stream);

 private:
  CublasLtMatMul(std::shared_ptr<CublasLtHandle> handle, const CudaMatMul& call)
      : handle_(std::move(handle)), api_(handle_->api()), call_(call) {}
  absl::Status Check(cublasStatus_t status, const char* doing) const;
  absl::Status MakeDescriptors();
  absl::Status MakeLayout(cublasLtMatrixLayout_t* layout, int64_t rows, int64_t columns,
                          int64_t stride);
  absl::StatusOr<std::optional<cublasLtMatmulAlgo_t>> Choose(uint32_t alignment) const;

  const std::shared_ptr<CublasLtHandle> handle_;
  const CublasLtApi& api_;
  const CudaMatMul call_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  // The library is column-major: it computes D' = B' A', whose matrices are ours transposed.
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  std::optional<cublasLtMatmulAlgo_t> aligned_, any_;
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUBLASLT_MATMUL_H_
