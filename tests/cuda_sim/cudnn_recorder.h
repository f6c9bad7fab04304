// A strict stand-in for cuDNN's convolutions on the simulated driver: checks what the library's
// documentation demands of each call, and computes it on the simulated GPU, in stream order.
#ifndef MILLRACE_TESTS_CUDA_SIM_CUDNN_RECORDER_H_
#define MILLRACE_TESTS_CUDA_SIM_CUDNN_RECORDER_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/cudnn_api.h"
#include "tests/cuda_sim/cuda_sim.h"

namespace millrace {

class CudnnRecorder {
 public:
  // As CublasLtRecorder.
  explicit CudnnRecorder(CudaSim& sim);
  ~CudnnRecorder();
  CudnnRecorder(const CudnnRecorder&) = delete;
  CudnnRecorder& operator=(const CudnnRecorder&) = delete;

  const CudnnApi& api() const;
  std::vector<std::string> TakeViolations();
  // One line a call: "forward bias relu".
  const std::vector<std::string>& calls() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIM_CUDNN_RECORDER_H_
