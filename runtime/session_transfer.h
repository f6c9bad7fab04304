// Moves tensors into and out of the slices a plan binds: inputs, params, constants and outputs.
#ifndef MILLRACE_RUNTIME_SESSION_TRANSFER_H_
#define MILLRACE_RUNTIME_SESSION_TRANSFER_H_

#include <cstdint>
#include <span>

#include "graph/status.h"
#include "graph/tensor.h"
#include "runtime/bound_program.h"

namespace millrace {

// The type of the tensor that holds an input of `type` for all microbatches: dim 0 times
// `microbatches`; what has no dim 0 is the same for all. UsageError when too large.
absl::StatusOr<TensorType> StackedType(const TensorType& type, int32_t microbatches);

// One microbatch of (a device's part of) a value, at `data` on the host with `strides` (elements,
// one per dim; empty: dense), into its slice, and back. UsageError when the slice has a blocked
// layout. Does not allocate.
absl::Status WriteSlice(const BoundProgram& bound, SliceId slice, int32_t microbatch,
                        const TensorType& type, const std::byte* data,
                        std::span<const int64_t> strides = {});
absl::Status ReadSlice(const BoundProgram& bound, SliceId slice, int32_t microbatch,
                       const TensorType& type, std::byte* data,
                       std::span<const int64_t> strides = {});

// Fills all buffers with bytes that are NaN in every float type.
absl::Status Poison(const BoundProgram& bound);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SESSION_TRANSFER_H_
