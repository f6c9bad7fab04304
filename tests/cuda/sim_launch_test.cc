// Kernels of the simulated driver: what they may do, and what is found when they do more.
#include "tests/cuda/sim_driver.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// --- Kernels ------------------------------------------------------------------------------------

struct SimKernelTest : SimTest {
  SimKernelTest() {
    SimKernel add;  // to[i] += from[i]
    add.param_bytes = {sizeof(CUdeviceptr), sizeof(CUdeviceptr), sizeof(int32_t)};
    add.accesses = [](const SimLaunch& launch) -> std::vector<SimAccess> {
      const auto to = launch.Param<CUdeviceptr>(0), from = launch.Param<CUdeviceptr>(1);
      const auto n = launch.Param<int32_t>(2);
      return {{to, n, true}, {to, n, false}, {from, n, false}};
    };
    add.run = [this](const SimLaunch& launch) {
      const auto to = launch.Param<CUdeviceptr>(0), from = launch.Param<CUdeviceptr>(1);
      const auto n = launch.Param<int32_t>(2) + overrun;
      const std::byte* addend = launch.Read(from, n);
      const std::byte* value = launch.Read(to, n);
      std::byte* sum = launch.Write(to, n);
      if (sum == nullptr) return result;
      for (int32_t i = 0; i < n; ++i) {
        sum[i] = static_cast<std::byte>(static_cast<int>(value[i]) + static_cast<int>(addend[i]));
      }
      return result;
    };
    sim.RegisterKernel("add", add);
    EXPECT_EQ(d.ModuleLoadData(&module, CudaSim::ModuleImage()), CUDA_SUCCESS);
    EXPECT_EQ(d.ModuleGetFunction(&function, module, "add"), CUDA_SUCCESS);
  }
  CUresult Add(CUdeviceptr to, CUdeviceptr from, int32_t n, CUstream stream) {
    void* params[] = {&to, &from, &n};
    return d.LaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr);
  }

  int32_t overrun = 0;
  CUresult result = CUDA_SUCCESS;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

TEST_F(SimKernelTest, ComputeOnDeviceMemory) {
  EXPECT_EQ(Add(a, b, 256, s1), CUDA_SUCCESS);
  std::vector<std::byte> sum(256);
  d.StreamSynchronize(s1);
  d.MemcpyAsync(reinterpret_cast<CUdeviceptr>(sum.data()), a, 256, s1);
  EXPECT_THAT(sum, Each(std::byte{3}));
}

TEST_F(SimKernelTest, RaceLikeCopies) {
  Add(a, b, 64, s1);
  d.MemcpyAsync(b, a, 64, s2);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(),
              AllOf(Not(IsEmpty()), Each(StartsWith("unsynchronized access: "))));
}

TEST_F(SimKernelTest, MayNotLeaveWhatTheyDeclare) {
  overrun = 1;
  Add(a, b, 64, s1);
  SynchronizeAll();
  EXPECT_THAT(sim.TakeViolations(), AllOf(SizeIs(3), Each(HasSubstr("it declared"))));
}

TEST_F(SimKernelTest, OutOfBoundsLosesTheDevice) {
  EXPECT_EQ(Add(a, b, 257, s1), CUDA_SUCCESS);  // seen when it runs, as on a GPU
  EXPECT_EQ(d.StreamSynchronize(s1), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(Violation(), AllOf(StartsWith("out of bounds: kernel add"), HasSubstr("[0, 257)")));
  EXPECT_EQ(d.EventRecord(event, s1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(SimKernelTest, HostMemoryIsOutOfReach) {
  std::vector<std::byte> host(64);
  Add(a, reinterpret_cast<CUdeviceptr>(host.data()), 64, s1);
  EXPECT_EQ(d.StreamSynchronize(s1), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(Violation(), HasSubstr("pageable host memory"));
}

TEST_F(SimKernelTest, AFaultLosesTheDevice) {
  result = CUDA_ERROR_ASSERT;
  Add(a, b, 64, s1);
  EXPECT_EQ(d.StreamSynchronize(s1), CUDA_ERROR_ASSERT);
  EXPECT_EQ(d.StreamSynchronize(s2), CUDA_ERROR_ASSERT);
}

TEST_F(SimKernelTest, UseAfterFreeWhenQueued) {
  const CUdeviceptr flag = NewPinned(64);
  std::memset(reinterpret_cast<void*>(flag), 0, 64);
  d.StreamWaitValue32(s1, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
  Add(a, b, 64, s1);
  d.MemFree(b);
  d.StreamWriteValue32(s2, flag, 1, 0);
  EXPECT_EQ(d.StreamSynchronize(s1), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(Violation(), AllOf(StartsWith("use after free: kernel add"), HasSubstr("freed")));
}

TEST_F(SimKernelTest, OtherDevicesNeedPeerAccess) {
  CUcontext other = nullptr;
  d.DevicePrimaryCtxRetain(&other, 1);
  d.CtxSetCurrent(other);
  const CUdeviceptr far = NewMemory(64);
  const CUstream far_stream = NewStream();
  d.MemsetD8Async(far, 1, 64, far_stream);
  d.StreamSynchronize(far_stream);
  d.CtxSetCurrent(context);
  Add(a, far, 64, s1);
  SynchronizeAll();
  EXPECT_THAT(Violation(), HasSubstr("without peer access"));
  EXPECT_EQ(d.CtxEnablePeerAccess(other, 0), CUDA_SUCCESS);
  EXPECT_EQ(d.CtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(Add(a, far, 64, s1), CUDA_SUCCESS);
  SynchronizeAll();
  EXPECT_EQ(d.CtxEnablePeerAccess(context, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(Violation(), HasSubstr("peer access to no peer"));
}

TEST_F(SimKernelTest, ModulesAndShapes) {
  CUmodule other = nullptr;
  EXPECT_EQ(d.ModuleLoadData(&other, "not a module"), CUDA_ERROR_INVALID_IMAGE);
  CUfunction none = nullptr;
  EXPECT_EQ(d.ModuleGetFunction(&none, module, "subtract"), CUDA_ERROR_NOT_FOUND);
  EXPECT_THAT(sim.TakeViolations(), IsEmpty());  // honest refusals
  CUdeviceptr to = a, from = b;
  int32_t n = 1;
  void* params[] = {&to, &from, &n};
  EXPECT_EQ(d.LaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, s1, params, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d.LaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, s1, params, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d.ModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(Add(a, b, 1, s1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(d.ModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(sim.TakeViolations().size(), 4u);
}

}  // namespace
}  // namespace millrace
