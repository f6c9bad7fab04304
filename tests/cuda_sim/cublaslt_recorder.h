// A strict stand-in for cuBLASLt on the simulated driver: checks what the library's documentation
// demands of each call, and computes the product on the simulated GPU, in stream order. What is
// wrong is collected; each message names the place in the documentation.
#ifndef MILLRACE_TESTS_CUDA_SIM_CUBLASLT_RECORDER_H_
#define MILLRACE_TESTS_CUDA_SIM_CUBLASLT_RECORDER_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/cublaslt_api.h"
#include "tests/cuda_sim/cuda_sim.h"

namespace millrace {

class CublasLtRecorder {
 public:
  // One at a time in a process; `sim` outlives it. Its destructor aborts when there are violations
  // that nobody took, or objects that were not destroyed.
  explicit CublasLtRecorder(CudaSim& sim);
  ~CublasLtRecorder();
  CublasLtRecorder(const CublasLtRecorder&) = delete;
  CublasLtRecorder& operator=(const CublasLtRecorder&) = delete;

  const CublasLtApi& api() const;
  std::vector<std::string> TakeViolations();
  // One line a product: "f32 n x k x m = 8 x 4 x 2, op NT, epilogue bias+relu, batch 3".
  const std::vector<std::string>& calls() const;
  // GetHeuristic finds nothing for operands aligned to less than 16 bytes, as it may.
  void RefuseUnaligned();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIM_CUBLASLT_RECORDER_H_
