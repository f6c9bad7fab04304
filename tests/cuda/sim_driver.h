// The simulated driver used directly, to do things that the engine's own code refuses to do.
#ifndef MILLRACE_TESTS_CUDA_SIM_DRIVER_H_
#define MILLRACE_TESTS_CUDA_SIM_DRIVER_H_

#include "tests/cuda/simulated_gpu.h"

namespace millrace {

// Two GPUs; the first is current, with two streams, an event, and two filled allocations.
struct SimTest : ::testing::Test {
  explicit SimTest(const CudaSimOptions& options = {.devices = 2}) : sim(options) {
    EXPECT_EQ(d.DevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(d.CtxSetCurrent(context), CUDA_SUCCESS);
    for (CUstream* s : {&s1, &s2}) *s = NewStream();
    EXPECT_EQ(d.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    a = NewMemory(256);
    b = NewMemory(256);
    EXPECT_EQ(d.MemsetD8Async(a, 1, 256, s1), CUDA_SUCCESS);
    EXPECT_EQ(d.MemsetD8Async(b, 2, 256, s1), CUDA_SUCCESS);
    EXPECT_EQ(d.StreamSynchronize(s1), CUDA_SUCCESS);
  }
  ~SimTest() override {
    sim.ForgiveLeaks();  // these tests are about other things
    d.CtxSetCurrent(nullptr);
  }

  CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(d.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    return stream;
  }
  CUdeviceptr NewMemory(size_t size) {
    CUdeviceptr data = 0;
    EXPECT_EQ(d.MemAlloc(&data, size), CUDA_SUCCESS);
    return data;
  }
  CUdeviceptr NewPinned(size_t size) {
    void* data = nullptr;
    EXPECT_EQ(d.MemHostAlloc(&data, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
              CUDA_SUCCESS);
    return reinterpret_cast<CUdeviceptr>(data);
  }
  void SynchronizeAll() {
    d.StreamSynchronize(s1);
    d.StreamSynchronize(s2);
  }
  // The one violation there is.
  std::string Violation() {
    const std::vector<std::string> violations = sim.TakeViolations();
    EXPECT_EQ(violations.size(), 1u) << ::testing::PrintToString(violations);
    return violations.empty() ? "" : violations[0];
  }

  CudaSim sim;
  const CudaDriver& d = sim.driver();
  CUcontext context = nullptr;
  CUstream s1 = nullptr, s2 = nullptr;
  CUevent event = nullptr;
  CUdeviceptr a = 0, b = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIM_DRIVER_H_
