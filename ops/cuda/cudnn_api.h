// cuDNN as a table of entry points, like the driver: loaded when it is needed, and tests put a
// recorder in its place. Convolutions go by its older interface, one function for each direction.
#ifndef MILLRACE_OPS_CUDA_CUDNN_API_H_
#define MILLRACE_OPS_CUDA_CUDNN_API_H_

#include <cudnn.h>

#include "graph/status.h"

namespace millrace {

#define MILLRACE_CUDNN_ENTRY_POINTS(X)             \
  X(cudnnGetErrorString)                           \
  X(cudnnCreate)                                   \
  X(cudnnDestroy)                                  \
  X(cudnnSetStream)                                \
  X(cudnnCreateTensorDescriptor)                   \
  X(cudnnDestroyTensorDescriptor)                  \
  X(cudnnSetTensorNdDescriptor)                    \
  X(cudnnCreateFilterDescriptor)                   \
  X(cudnnDestroyFilterDescriptor)                  \
  X(cudnnSetFilterNdDescriptor)                    \
  X(cudnnCreateActivationDescriptor)               \
  X(cudnnDestroyActivationDescriptor)              \
  X(cudnnSetActivationDescriptor)                  \
  X(cudnnCreateConvolutionDescriptor)              \
  X(cudnnDestroyConvolutionDescriptor)             \
  X(cudnnSetConvolutionNdDescriptor)               \
  X(cudnnSetConvolutionGroupCount)                 \
  X(cudnnSetConvolutionMathType)                   \
  X(cudnnGetConvolutionForwardWorkspaceSize)       \
  X(cudnnGetConvolutionForwardAlgorithm_v7)        \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  X(cudnnConvolutionForward)                       \
  X(cudnnConvolutionBiasActivationForward)         \
  X(cudnnConvolutionBackwardData)                  \
  X(cudnnConvolutionBackwardFilter)

struct CudnnApi {
#define MILLRACE_CUDNN_FIELD(symbol) decltype(&::symbol) symbol = nullptr;
  MILLRACE_CUDNN_ENTRY_POINTS(MILLRACE_CUDNN_FIELD)
#undef MILLRACE_CUDNN_FIELD
};

// The machine's library, loaded once per process. DeviceError where there is none.
absl::StatusOr<const CudnnApi*> LoadCudnn();

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDNN_API_H_
