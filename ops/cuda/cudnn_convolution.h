// A CudaConvolution prepared for a device, so that running it is one call.
#ifndef MILLRACE_OPS_CUDA_CUDNN_CONVOLUTION_H_
#define MILLRACE_OPS_CUDA_CUDNN_CONVOLUTION_H_

#include <memory>
#include <span>
#include <vector>

#include "ops/cuda/cuda_convolution.h"
#include "ops/cuda/cudnn_api.h"
#include "runtime/device.h"

namespace millrace {

// The library's handle for a device; its convolutions share it.
class CudnnHandle {
 public:
  // `api` and `device` outlive it.
  static absl::StatusOr<std::shared_ptr<CudnnHandle>> Create(const CudnnApi& api, Device& device);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  const CudnnApi& api() const { return api_; }
  cudnnHandle_t native() const { return handle_; }

 private:
  CudnnHandle(const CudnnApi& api, Device& device) : api_(api), device_(device) {}

  const CudnnApi& api_;
  Device& device_;
  cudnnHandle_t handle_ = nullptr;
};

class CudnnConvolution {
 public:
  // The device's context is current. The algorithm is the first that the library's heuristic names
  // of those that are deterministic and content with the workspace.
  static absl::StatusOr<std::unique_ptr<CudnnConvolution>> Prepare(
      std::shared_ptr<CudnnHandle> handle, const CudaConvolution& call);
  ~CudnnConvolution();
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;

  // `addresses`: of the launch's parameters (cuda_convolution.h).
  absl::Status Run(std::span<void* const> addresses, void* stream);

 private:
  CudnnConvolution(std::shared_ptr<CudnnHandle> handle, const CudaConvolution& call)
      : handle_(std::move(handle)), api_(handle_->api()), call_(call) {}
  absl::Status Check(cudnnStatus_t status, const char* doing) const;
  absl::Status MakeDescriptors();
  absl::Status DescribeTensor(cudnnTensorDescriptor_t* tensor, const std::vector<int64_t>& dims);
  absl::Status ChooseAlgorithm();
  cudnnStatus_t RunForward(std::span<void* const> addresses, void* workspace) const;

  const std::shared_ptr<CudnnHandle> handle_;
  const CudnnApi& api_;
  const CudaConvolution call_;
  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr, bias_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnActivationDescriptor_t activation_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  int algorithm_ = 0;  // of the enumeration that goes with the kind
};

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDNN_CONVOLUTION_H_
