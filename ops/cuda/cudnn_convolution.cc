#include "ops/cuda/cudnn_convolution.h"

#include <array>

#include "graph/strings.h"
#include "runtime/cuda/cuda_device.h"

namespace millrace {
namespace {

constexpr int kMostAlgorithms = 8;

cudnnDataType_t CudnnType(DType dtype) {
  return dtype == DType::kF16    ? CUDNN_DATA_HALF
         : dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

std::vector<int> ToInts(const std::vector<int64_t>& values) {
  std::vector<int> ints;
  for (const int64_t value : values) ints.push_back(static_cast<int>(value));
  return ints;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudnnHandle>> CudnnHandle::Create(const CudnnApi& api,
                                                                 Device& device) {
  MILLRACE_RETURN_IF_ERROR(MakeCudaDeviceCurrent(device));
  std::shared_ptr<CudnnHandle> handle(new CudnnHandle(api, device));
  const cudnnStatus_t status = api.cudnnCreate(&handle->handle_);
  if (status == CUDNN_STATUS_SUCCESS) return handle;
  handle->handle_ = nullptr;
  return DeviceError(
      StrCat(device.name(), ": cuDNN: making a handle: ", api.cudnnGetErrorString(status)));
}

CudnnHandle::~CudnnHandle() {
  if (handle_ != nullptr && MakeCudaDeviceCurrent(device_).ok()) api_.cudnnDestroy(handle_);
}

absl::Status CudnnConvolution::Check(cudnnStatus_t status, const char* doing) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  const auto shape = [](const std::vector<int64_t>& dims) { return ToString(Shape(dims)); };
  return DeviceError(StrCat("cuDNN: ", doing, " for a convolution of ", shape(call_.x), " with ",
                            shape(call_.w), " in ", DTypeName(call_.dtype), ": ",
                            api_.cudnnGetErrorString(status)));
}

absl::StatusOr<std::unique_ptr<CudnnConvolution>> CudnnConvolution::Prepare(
    std::shared_ptr<CudnnHandle> handle, const CudaConvolution& call) {
  std::unique_ptr<CudnnConvolution> made(new CudnnConvolution(std::move(handle), call));
  MILLRACE_RETURN_IF_ERROR(made->MakeDescriptors());
  MILLRACE_RETURN_IF_ERROR(made->ChooseAlgorithm());
  return made;
}

CudnnConvolution::~CudnnConvolution() {
  for (cudnnTensorDescriptor_t tensor : {x_, y_, bias_}) {
    if (tensor != nullptr) api_.cudnnDestroyTensorDescriptor(tensor);
  }
  if (w_ != nullptr) api_.cudnnDestroyFilterDescriptor(w_);
  if (activation_ != nullptr) api_.cudnnDestroyActivationDescriptor(activation_);
  if (convolution_ != nullptr) api_.cudnnDestroyConvolutionDescriptor(convolution_);
}

absl::Status CudnnConvolution::DescribeTensor(cudnnTensorDescriptor_t* tensor,
                                              const std::vector<int64_t>& dims) {
  MILLRACE_RETURN_IF_ERROR(Check(api_.cudnnCreateTensorDescriptor(tensor), "describing a tensor"));
  const std::vector<int> sizes = ToInts(dims);
  std::vector<int> strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * sizes[d + 1];
  return Check(
      api_.cudnnSetTensorNdDescriptor(*tensor, CudnnType(call_.dtype),
                                      static_cast<int>(sizes.size()), sizes.data(), strides.data()),
      "describing a tensor");
}

absl::Status CudnnConvolution::MakeDescriptors() {
  MILLRACE_RETURN_IF_ERROR(DescribeTensor(&x_, call_.x));
  MILLRACE_RETURN_IF_ERROR(DescribeTensor(&y_, call_.y));
  std::vector<int64_t> per_channel(call_.y.size(), 1);
  per_channel[1] = call_.y[1];
  MILLRACE_RETURN_IF_ERROR(DescribeTensor(&bias_, per_channel));
  const std::vector<int> filter = ToInts(call_.w);
  MILLRACE_RETURN_IF_ERROR(Check(api_.cudnnCreateFilterDescriptor(&w_), "describing weights"));
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnSetFilterNdDescriptor(w_, CudnnType(call_.dtype), CUDNN_TENSOR_NCHW,
                                            static_cast<int>(filter.size()), filter.data()),
            "describing weights"));
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnCreateActivationDescriptor(&activation_), "describing Relu"));
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnSetActivationDescriptor(
                activation_, call_.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                CUDNN_PROPAGATE_NAN, 0),
            "describing Relu"));
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnCreateConvolutionDescriptor(&convolution_), "describing it"));
  const std::vector<int> pads = ToInts(call_.pads), strides = ToInts(call_.strides);
  const std::vector<int> dilations = ToInts(call_.dilations);
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnSetConvolutionNdDescriptor(convolution_, static_cast<int>(pads.size()),
                                                 pads.data(), strides.data(), dilations.data(),
                                                 CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            "describing it"));
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnSetConvolutionGroupCount(convolution_, static_cast<int>(call_.groups)),
            "describing it"));
  // f32 is not rounded to tf32 unasked.
  const cudnnMathType_t math = call_.dtype == DType::kF32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  return Check(api_.cudnnSetConvolutionMathType(convolution_, math), "describing it");
}

namespace {

// The first that will do; -1: none.
template <typename Perf>
int FirstUsable(std::span<const Perf> found, int64_t workspace_bytes) {
  for (const Perf& each : found) {
    const bool usable = each.status == CUDNN_STATUS_SUCCESS &&
                        each.determinism == CUDNN_DETERMINISTIC &&
                        each.memory <= static_cast<size_t>(workspace_bytes);
    if (usable) return static_cast<int>(each.algo);
  }
  return -1;
}

}  // namespace

absl::Status CudnnConvolution::ChooseAlgorithm() {
  int count = 0;
  const auto choose = [&](auto perf, auto&& ask) -> absl::Status {
    std::array<decltype(perf), kMostAlgorithms> found{};
    MILLRACE_RETURN_IF_ERROR(Check(ask(found.data()), "finding an algorithm"));
    algorithm_ = FirstUsable<decltype(perf)>({found.data(), static_cast<size_t>(count)},
                                             call_.workspace_bytes);
    if (algorithm_ >= 0) return absl::OkStatus();
    return Check(CUDNN_STATUS_NOT_SUPPORTED, "finding an algorithm");
  };
  switch (call_.kind) {
    case CudaConvolution::Kind::kForward:
      if (call_.is_fused()) {  // the only one that goes with every activation
        constexpr auto kFused = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
        algorithm_ = kFused;
        size_t needed = 0;
        MILLRACE_RETURN_IF_ERROR(
            Check(api_.cudnnGetConvolutionForwardWorkspaceSize(handle_->native(), x_, w_,
                                                               convolution_, y_, kFused, &needed),
                  "sizing the workspace"));
        const bool fits = needed <= static_cast<size_t>(call_.workspace_bytes);
        return Check(fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED,
                     "finding an algorithm for the planned workspace");
      }
      return choose(cudnnConvolutionFwdAlgoPerf_t{}, [&](auto* found) {
        return api_.cudnnGetConvolutionForwardAlgorithm_v7(handle_->native(), x_, w_, convolution_,
                                                           y_, kMostAlgorithms, &count, found);
      });
    case CudaConvolution::Kind::kInput:
      return choose(cudnnConvolutionBwdDataAlgoPerf_t{}, [&](auto* found) {
        return api_.cudnnGetConvolutionBackwardDataAlgorithm_v7(
            handle_->native(), w_, y_, convolution_, x_, kMostAlgorithms, &count, found);
      });
    default:
      return choose(cudnnConvolutionBwdFilterAlgoPerf_t{}, [&](auto* found) {
        return api_.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            handle_->native(), x_, y_, convolution_, w_, kMostAlgorithms, &count, found);
      });
  }
}

cudnnStatus_t CudnnConvolution::RunForward(std::span<void* const> addresses,
                                           void* workspace) const {
  const float one = 1, zero = 0;
  const auto bytes = static_cast<size_t>(call_.workspace_bytes);
  const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_);
  void* const y = addresses[2];
  if (!call_.is_fused()) {
    return api_.cudnnConvolutionForward(handle_->native(), &one, x_, addresses[0], w_, addresses[1],
                                        convolution_, algorithm, workspace, bytes, &zero, y_, y);
  }
  size_t next = 4;
  const void* const bias = call_.has_bias ? addresses[next++] : nullptr;
  const void* const residual = call_.has_residual ? addresses[next] : y;
  return api_.cudnnConvolutionBiasActivationForward(
      handle_->native(), &one, x_, addresses[0], w_, addresses[1], convolution_, algorithm,
      workspace, bytes, call_.has_residual ? &one : &zero, y_, residual, bias_, bias, activation_,
      y_, y);
}

absl::Status CudnnConvolution::Run(std::span<void* const> addresses, void* stream) {
  const float one = 1, zero = 0;
  constexpr auto kAlignment = static_cast<uintptr_t>(CudaConvolution::kWorkspaceAlignment);
  const auto scratch = reinterpret_cast<uintptr_t>(addresses[3]);
  void* const workspace =
      static_cast<std::byte*>(addresses[3]) + (kAlignment - scratch % kAlignment) % kAlignment;
  const auto bytes = static_cast<size_t>(call_.workspace_bytes);
  MILLRACE_RETURN_IF_ERROR(
      Check(api_.cudnnSetStream(handle_->native(), static_cast<cudaStream_t>(stream)),
            "setting the "
            "stream"));
  switch (call_.kind) {
    case CudaConvolution::Kind::kForward:
      return Check(RunForward(addresses, workspace), "launching");
    case CudaConvolution::Kind::kInput:
      return Check(api_.cudnnConvolutionBackwardData(
                       handle_->native(), &one, w_, addresses[1], y_, addresses[0], convolution_,
                       static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), workspace, bytes,
                       &zero, x_, addresses[2]),
                   "launching");
    default:
      return Check(api_.cudnnConvolutionBackwardFilter(
                       handle_->native(), &one, x_, addresses[0], y_, addresses[1], convolution_,
                       static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), workspace, bytes,
                       &zero, w_, addresses[2]),
                   "launching");
  }
}

}  // namespace millrace
