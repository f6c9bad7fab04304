// A reduction of few but long rows in two launches: parts of rows first, whole rows of the parts
// then, so that a bias gradient or a loss takes all of a GPU and not a few blocks of it.
#ifndef MILLRACE_OPS_CUDA_SPLIT_PROGRAM_H_
#define MILLRACE_OPS_CUDA_SPLIT_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "ops/cuda/node_programs.h"

namespace millrace {

// The step itself, or two that do the same by way of scratch beyond `scratch_bytes`, which grows.
// Only programs whose results do not vary along rows are split, and reductions that follow others
// are not; sums are then added up in another order.
std::vector<ProgramStep> SplitLongRows(ProgramStep step, int64_t& scratch_bytes);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_SPLIT_PROGRAM_H_
