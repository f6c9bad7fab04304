// Runs a kernel that a host compiler compiled: blocks in turn, the threads of a block as fibers.
#ifndef MILLRACE_TESTS_CUDA_SIMT_SIMT_BLOCK_H_
#define MILLRACE_TESTS_CUDA_SIMT_SIMT_BLOCK_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "graph/status.h"
#include "tests/cuda_simt/simt_api.h"

namespace millrace {

// In which order threads run until they wait for others. A kernel whose results depend on it has a
// race.
enum class SimtOrder : uint8_t { kForward, kBackward };

const SimtApi& SimtRuntime();

// kernel() is called once for each thread of `blocks` blocks. InternalError: a thread left, or went
// to a barrier, while others of its warp or block wait for it elsewhere. One call at a time.
absl::Status RunSimtGrid(uint32_t blocks, uint32_t threads, SimtOrder order,
                         absl::FunctionRef<void()> kernel);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIMT_SIMT_BLOCK_H_
