// What compiled kernels call of the shim, and what the shim knows of a thread.
#ifndef MILLRACE_TESTS_CUDA_SIMT_SIMT_API_H_
#define MILLRACE_TESTS_CUDA_SIMT_SIMT_API_H_

namespace millrace {

struct SimtIndex {
  unsigned x = 0, y = 0, z = 0;
};
struct SimtThread {
  SimtIndex thread_index, block_index, block_size, grid_size;
};

struct SimtApi {
  const SimtThread* (*self)();
  void (*barrier)();  // __syncthreads
  // Gives `bytes` at `from` to the lanes of the warp that ask for them, and takes those that lane
  // `source` gives. All lanes of `mask` must come.
  void (*exchange)(unsigned mask, const void* from, void* to, unsigned bytes, unsigned source);
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIMT_SIMT_API_H_
