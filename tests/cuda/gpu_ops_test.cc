// Every kernel that the cuda backend offers for any op case, on this machine's GPU, with NVRTC,
// cuBLASLt and cuDNN, against the reference. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "graph/strings.h"
#include "ops/cuda/driver_kernels.h"
#include "ops/cuda/nvrtc_compiler.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/cuda_simt/simt_cases.h"
#include "tests/cuda_simt/simt_runner.h"

namespace millrace {
namespace {

// Operands in device memory.
class DeviceOperands {
 public:
  explicit DeviceOperands(Device& device) : device_(device) {}

  absl::StatusOr<void*> Add(int64_t size, const std::byte* bytes) {
    MILLRACE_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(MemorySpace::kDevice, size));
    if (bytes != nullptr && size > 0) {
      MILLRACE_RETURN_IF_ERROR(device_.Write(buffer.data(), bytes, size));
    }
    buffers_.push_back(std::move(buffer));
    return static_cast<void*>(buffers_.back().data());
  }

 private:
  Device& device_;
  std::vector<Buffer> buffers_;
};

absl::StatusOr<std::vector<Tensor>> RunOnGpu(Device& device, KernelLibrary& library,
                                             const SimtCase& c, const KernelVariant& variant) {
  KernelRequest request;
  request.query = c.query;
  request.variant = variant.name;
  request.inputs.resize(c.query.inputs.size());
  request.outputs.resize(c.query.outputs.size());
  request.scratch_bytes = variant.scratch_bytes;
  request.device = &device;
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, library.Prepare(request));
  DeviceOperands operands(device);
  std::vector<void*> inputs, outputs;
  for (const Tensor& t : c.inputs) {
    inputs.push_back(nullptr);
    if (!t.has_data()) continue;
    MILLRACE_ASSIGN_OR_RETURN(inputs.back(), operands.Add(t.size_bytes(), t.bytes()));
  }
  for (const auto& type : c.query.outputs) {
    MILLRACE_ASSIGN_OR_RETURN(void* output, operands.Add(ByteSize(*type), nullptr));
    outputs.push_back(output);
  }
  KernelArgs args;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  MILLRACE_ASSIGN_OR_RETURN(args.scratch, operands.Add(variant.scratch_bytes, nullptr));
  Cancellation run;
  PlanStream plan;
  plan.name = "main";
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, device.CreateStream(plan, run));
  MILLRACE_RETURN_IF_ERROR(stream->Launch(*kernel, args));
  MILLRACE_RETURN_IF_ERROR(stream->Synchronize());
  std::vector<Tensor> results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor& t = results.emplace_back(Tensor::Zeros(*c.query.outputs[k]));
    if (t.size_bytes() == 0) continue;
    MILLRACE_RETURN_IF_ERROR(
        device.Read(t.mutable_bytes(), static_cast<std::byte*>(outputs[k]), t.size_bytes()));
  }
  return results;
}

TEST(GpuOps, EveryKernelOfEveryCaseInEveryType) {
  const auto driver = LoadCudaDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status();
  auto compiler = CreateNvrtcCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const auto device = CreateCudaDevice(**driver, {});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto library =
      CreateCudaKernelLibrary({.compiler = CacheOnDisk(*std::move(compiler), KernelCacheFolder())});
  int compared = 0;
  for (const SimtCase& c : SimtCases()) {
    for (const KernelVariant& variant : CudaTarget().Variants(c.query)) {
      if (variant.on_host) continue;
      SCOPED_TRACE(StrCat(c.name, ", ", variant.name));
      const auto expected = ReferenceOf(c.query, c.inputs);
      const auto actual = RunOnGpu(**device, *library, c, variant);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(actual.ok()) << actual.status();
      for (size_t k = 0; k < expected->size(); ++k) {
        EXPECT_LE(optest::MaxError((*actual)[k], (*expected)[k]),
                  SimtToleranceOf((*expected)[k].dtype()))
            << "output " << k;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace millrace
