#include "runtime/cuda/cuda_driver.h"

#include <map>

#include "tests/cuda/simulated_gpu.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LoadCudaDriver, GivesACompleteTable) {
  absl::StatusOr<const CudaDriver*> driver = LoadCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << "no GPU here: " << driver.status();
#define MILLRACE_EXPECT_ENTRY(field, symbol, version) \
  EXPECT_NE((*driver)->field, nullptr) << #symbol;
  MILLRACE_CUDA_ENTRY_POINTS(MILLRACE_EXPECT_ENTRY)
#undef MILLRACE_EXPECT_ENTRY
  EXPECT_GE(Must(ListCudaDevices(**driver)).size(), 1u);
}

TEST(LoadCudaDriver, WithoutADriverSaysSo) {
  absl::StatusOr<const CudaDriver*> driver = LoadCudaDriver();
  if (driver.ok()) GTEST_SKIP() << "this machine has a driver";
  EXPECT_EQ(ExitCode(driver.status()), 6);
  EXPECT_THAT(Message(driver.status()), HasSubstr("NVIDIA driver"));
}

TEST(LoadCudaDriver, SimulatedTableIsComplete) {
  CudaSim sim;
#define MILLRACE_EXPECT_ENTRY(field, symbol, version) \
  EXPECT_NE(sim.driver().field, nullptr) << #symbol;
  MILLRACE_CUDA_ENTRY_POINTS(MILLRACE_EXPECT_ENTRY)
#undef MILLRACE_EXPECT_ENTRY
}

// A driver of CUDA 12.0: it gives anything that is not newer, and remembers what it was asked for.
struct OldDriver {
  static CUresult Get(const char* symbol, void** entry, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* found) {
    EXPECT_EQ(flags, cuuint64_t{CU_GET_PROC_ADDRESS_LEGACY_STREAM});
    asked[symbol] = version;
    const bool known = symbol != lacks && version <= 12000;
    *entry = known ? reinterpret_cast<void*>(&Get) : nullptr;
    *found = known ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  static inline std::map<std::string, int> asked;
  static inline std::string lacks;
};

TEST(ResolveCudaDriver, AsksForTheVersionOfEachSignature) {
  OldDriver::lacks = "";
  const CudaDriver driver = Must(ResolveCudaDriver(OldDriver::Get));
#define MILLRACE_EXPECT_ENTRY(field, symbol, version) EXPECT_NE(driver.field, nullptr) << #symbol;
  MILLRACE_CUDA_ENTRY_POINTS(MILLRACE_EXPECT_ENTRY)
#undef MILLRACE_EXPECT_ENTRY
  // Not today's names by macro ("cuMemAlloc_v2"), nor the toolkit's own version.
  EXPECT_EQ(OldDriver::asked["cuMemAlloc"], 3020);
  EXPECT_EQ(OldDriver::asked["cuStreamWaitValue32"], 11070);
  EXPECT_EQ(OldDriver::asked["cuStreamBeginCapture"], 10010);
}

TEST(ResolveCudaDriver, NamesWhatAnOldDriverLacks) {
  OldDriver::lacks = "cuStreamWriteValue32";
  const absl::Status status = ResolveCudaDriver(OldDriver::Get).status();
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_THAT(Message(status), HasSubstr("it lacks cuStreamWriteValue32 as of CUDA 11.7;"));
}

TEST(CudaError, OutOfMemoryIsItsOwnKind) {
  CudaSim sim;
  const absl::Status status = CudaError(sim.driver(), CUDA_ERROR_OUT_OF_MEMORY, "cuda:0: packing");
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_EQ(Message(status), "cuda:0: packing: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
}

TEST(CudaError, StickyErrorsSayThatTheContextIsLost) {
  CudaSim sim;
  const absl::Status lost = CudaError(sim.driver(), CUDA_ERROR_ILLEGAL_ADDRESS, "copying");
  EXPECT_EQ(ExitCode(lost), 6);
  EXPECT_THAT(Message(lost),
              AllOf(HasSubstr("copying: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal"),
                    HasSubstr("context is lost")));
  const absl::Status other = CudaError(sim.driver(), CUDA_ERROR_INVALID_VALUE, "copying");
  EXPECT_EQ(ExitCode(other), 6);
  EXPECT_EQ(Message(other), "copying: CUDA_ERROR_INVALID_VALUE (1): invalid argument");
}

TEST(CudaError, UnknownCodesKeepTheirNumber) {
  CudaSim sim;
  const absl::Status status = CudaError(sim.driver(), static_cast<CUresult>(998), "x");
  EXPECT_THAT(Message(status), HasSubstr("(998)"));
}

TEST(IsStickyCudaError, TellsLostContextsFromRefusedCalls) {
  for (CUresult r : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ASSERT,
                     CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_LAUNCH_TIMEOUT}) {
    EXPECT_TRUE(IsStickyCudaError(r)) << r;
  }
  for (CUresult r :
       {CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_READY}) {
    EXPECT_FALSE(IsStickyCudaError(r)) << r;
  }
}

TEST(ListCudaDevices, DescribesEachGpu) {
  CudaSim sim({.devices = 2, .memory_bytes = 1 << 20});
  const std::vector<CudaDeviceInfo> devices = Must(ListCudaDevices(sim.driver()));
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].ordinal, 1);
  EXPECT_EQ(devices[1].name, "Simulated GPU");
  EXPECT_EQ(devices[1].bus_id, "0000:11:00.0");
  EXPECT_EQ(devices[1].memory_bytes, 1 << 20);
  EXPECT_EQ(devices[1].sm_version, 90);
  EXPECT_EQ(devices[1].multiprocessors, 132);
}

TEST(ListCudaDevices, PassesDriverErrorsOn) {
  for (const char* entry : {"DeviceGetCount", "DeviceGetName", "DeviceGetAttribute"}) {
    CudaSim sim;
    sim.FailCall(entry, 1, CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_THAT(Message(ListCudaDevices(sim.driver()).status()),
                HasSubstr("CUDA_ERROR_NOT_INITIALIZED"))
        << entry;
  }
}

}  // namespace
}  // namespace millrace
