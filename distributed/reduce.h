// Element-wise reduction over the buffers of several ranks.
#ifndef MILLRACE_DISTRIBUTED_REDUCE_H_
#define MILLRACE_DISTRIBUTED_REDUCE_H_

#include <cstdint>
#include <span>

#include "graph/mesh.h"
#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

// output[i] = inputs[0][i] op inputs[1][i] op ..., in rank order, for i in [0, count). f16 and bf16
// are accumulated in f32 and rounded once, f32 and f64 in their own type, so the bits depend on the
// order of ranks alone. Integers wrap around; kMean divides integers towards zero. `output` may be
// one of the inputs. UsageError for bool.
absl::Status ReduceRanks(Reduction reduction, DType dtype, std::span<const std::byte* const> inputs,
                         int64_t count, std::byte* output);
// The same to each of `outputs`. Each may be one of the inputs; none overlaps another's bytes in
// any other way.
absl::Status ReduceRanks(Reduction reduction, DType dtype, std::span<const std::byte* const> inputs,
                         int64_t count, std::span<std::byte* const> outputs);

}  // namespace millrace

#endif  // MILLRACE_DISTRIBUTED_REDUCE_H_
