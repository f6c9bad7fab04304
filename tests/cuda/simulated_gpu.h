// What the tests of this folder share: a simulated machine with cuda devices on it.
#ifndef MILLRACE_TESTS_CUDA_SIMULATED_GPU_H_
#define MILLRACE_TESTS_CUDA_SIMULATED_GPU_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_device.h"
#include "runtime/device.h"
#include "tests/cuda_sim/cuda_sim.h"

namespace millrace {

#define ASSERT_OK(expr)                              \
  do {                                               \
    const absl::Status status_ = (expr);             \
    ASSERT_TRUE(status_.ok()) << status_.ToString(); \
  } while (false)
#define EXPECT_OK(expr)                              \
  do {                                               \
    const absl::Status status_ = (expr);             \
    EXPECT_TRUE(status_.ok()) << status_.ToString(); \
  } while (false)

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    ADD_FAILURE() << value.status().ToString();
    std::abort();
  }
  return *std::move(value);
}

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

inline std::unique_ptr<Device> MustCreate(const CudaSim& sim,
                                          const CudaDeviceOptions& options = {}) {
  return Must(CreateCudaDevice(sim.driver(), options));
}

inline std::unique_ptr<Stream> MustStream(Device& device, Cancellation& run,
                                          const std::string& name = "main", int priority = 0) {
  PlanStream plan;
  plan.name = name;
  plan.priority = priority;
  return Must(device.CreateStream(plan, run));
}

inline std::byte* Bytes(void* p) { return static_cast<std::byte*>(p); }

// n bytes that differ from each other as far as that goes, and from those of another salt.
inline std::vector<std::byte> Pattern(int64_t n, int salt = 1) {
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + salt * 31);
  return bytes;
}

inline std::vector<std::byte> ReadAll(Device& device, const Buffer& buffer) {
  std::vector<std::byte> bytes(static_cast<size_t>(buffer.size()));
  EXPECT_OK(device.Read(bytes.data(), buffer.data(), buffer.size()));
  return bytes;
}

inline CopyRegion Move(const Buffer& to, const Buffer& from, int64_t size_bytes) {
  CopyRegion region;
  region.to = to.data();
  region.from = from.data();
  region.to_space = to.space();
  region.from_space = from.space();
  region.row_bytes = size_bytes;
  return region;
}

}  // namespace millrace

#endif  // MILLRACE_TESTS_CUDA_SIMULATED_GPU_H_
