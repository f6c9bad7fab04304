// How a CopyRegion becomes driver calls and moves on the host.
#ifndef MILLRACE_RUNTIME_CUDA_CUDA_COPY_H_
#define MILLRACE_RUNTIME_CUDA_CUDA_COPY_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "graph/status.h"
#include "runtime/cuda/cuda_context.h"
#include "runtime/device.h"

namespace millrace {

// Whether the GPU can copy that side of the region by itself: device and pinned memory, as opposed
// to scratch files and host memory that the driver knows nothing of. The context is current.
struct Reach {
  bool to = false, from = false;
};
absl::StatusOr<Reach> ReachOf(const CudaContext& context, const CopyRegion& region);

// Queues a copy between device and pinned memory, in either direction; the context is current.
absl::Status IssueCopy(const CudaContext& context, CUstream stream, const CopyRegion& region);

// Splits a copy between a side that only the GPU reaches and one that only the host does into pairs
// of copies that meet in `staging`: `emit` is called with the copy into staging, then with the one
// out of it, and so on; each pair fills the staging from its start.
absl::Status SplitThroughStaging(const CopyRegion& region, std::byte* staging,
                                 int64_t staging_bytes,
                                 absl::FunctionRef<absl::Status(const CopyRegion&)> emit);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CUDA_CUDA_COPY_H_
