#include "ops/cuda/driver_kernels.h"

#include <map>
#include <utility>
#include <vector>

#include "graph/assert.h"
#include "graph/strings.h"
#include "ops/cuda/cublaslt_matmul.h"
#include "ops/cuda/cuda_target.h"
#include "ops/cuda/cudnn_convolution.h"
#include "ops/kernel_query.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_driver.h"

namespace millrace {
namespace {

// A module of one function, loaded on one device.
class LoadedFunction {
 public:
  static absl::StatusOr<std::shared_ptr<LoadedFunction>> Load(Device& device,
                                                              const std::string& image,
                                                              const std::string& name) {
    const CudaDriver& driver = DriverOfCudaDevice(device);
    MILLRACE_RETURN_IF_ERROR(MakeCudaDeviceCurrent(device));
    std::shared_ptr<LoadedFunction> loaded(new LoadedFunction(driver, device));
    CUresult r = driver.ModuleLoadData(&loaded->module_, image.data());
    if (r == CUDA_SUCCESS) {
      r = driver.ModuleGetFunction(&loaded->function_, loaded->module_, name.c_str());
    }
    if (r == CUDA_SUCCESS) return loaded;
    return CudaError(driver, r, StrCat(device.name(), ": loading kernel ", name));
  }
  ~LoadedFunction() {
    if (module_ != nullptr && MakeCudaDeviceCurrent(device_).ok()) driver_.ModuleUnload(module_);
  }
  LoadedFunction(const LoadedFunction&) = delete;
  LoadedFunction& operator=(const LoadedFunction&) = delete;

  const CudaDriver& driver() const { return driver_; }
  CUfunction function() const { return function_; }

 private:
  LoadedFunction(const CudaDriver& driver, Device& device) : driver_(driver), device_(device) {}

  const CudaDriver& driver_;
  Device& device_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

void* AddressOf(const CudaParam& param, const KernelArgs& args) {
  switch (param.kind) {
    case CudaParam::Kind::kInput:
      return args.inputs[param.index];
    case CudaParam::Kind::kOutput:
      return args.outputs[param.index];
    default:
      return static_cast<std::byte*>(args.scratch) + param.offset_bytes;
  }
}

// One launch, with room for its parameters.
struct ReadyLaunch {
  CudaLaunch launch;
  std::shared_ptr<LoadedFunction> loaded;  // or
  std::unique_ptr<CublasLtMatMul> matmul;  // or
  std::unique_ptr<CudnnConvolution> convolution;
  std::vector<void*> addresses = {};
  std::vector<void*> values = {};  // points into `addresses`
};

class CudaKernel final : public Kernel {
 public:
  explicit CudaKernel(std::vector<ReadyLaunch> launches) : launches_(std::move(launches)) {
    for (ReadyLaunch& ready : launches_) {
      ready.addresses.resize(ready.launch.params.size());
      for (void*& each : ready.addresses) ready.values.push_back(&each);
      ready.launch.source.clear();  // it served its purpose
    }
  }

  absl::Status Run(const KernelArgs& args) override {
    for (ReadyLaunch& ready : launches_) {
      const CudaLaunch& launch = ready.launch;
      for (size_t i = 0; i < launch.params.size(); ++i) {
        ready.addresses[i] = AddressOf(launch.params[i], args);
      }
      if (launch.blocks == 0) continue;  // of no elements, on the way to some
      if (launch.copies && ready.addresses[0] == ready.addresses[1]) continue;
      if (ready.matmul != nullptr) {
        MILLRACE_RETURN_IF_ERROR(ready.matmul->Run(ready.addresses, args.native_stream));
        continue;
      }
      if (ready.convolution != nullptr) {
        MILLRACE_RETURN_IF_ERROR(ready.convolution->Run(ready.addresses, args.native_stream));
        continue;
      }
      const CUresult r = ready.loaded->driver().LaunchKernel(
          ready.loaded->function(), launch.blocks, 1, 1, launch.threads, 1, 1, 0,
          static_cast<CUstream>(args.native_stream), ready.values.data(), nullptr);
      if (r != CUDA_SUCCESS) {
        return CudaError(ready.loaded->driver(), r, StrCat("launching ", launch.function));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<ReadyLaunch> launches_;
};

bool IsDenseOperand(const OperandLayout& operand, const std::optional<TensorType>& type) {
  if (!type.has_value()) return true;
  if (operand.layout != Layout::kStrided) return false;
  if (operand.strides.empty()) return true;
  const Shape dense = DenseStrides(type->shape);
  if (static_cast<int>(operand.strides.size()) != dense.rank()) return false;
  for (int d = 0; d < dense.rank(); ++d) {
    if (type->shape[d] > 1 && operand.strides[static_cast<size_t>(d)] != dense[d]) return false;
  }
  return true;
}

bool AllDense(const std::vector<OperandLayout>& operands,
              const std::vector<std::optional<TensorType>>& types) {
  for (size_t i = 0; i < operands.size() && i < types.size(); ++i) {
    if (!IsDenseOperand(operands[i], types[i])) return false;
  }
  return true;
}

class CudaKernelLibrary final : public KernelLibrary {
 public:
  explicit CudaKernelLibrary(CudaLibraries libraries) : libraries_(std::move(libraries)) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override {
    MILLRACE_CHECK(request.device != nullptr && request.device->kind() == "cuda");
    std::optional<CudaWork> work = CudaWorkFor(request.query, request.variant);
    if (!work.has_value() || request.true_shapes ||
        !AllDense(request.inputs, request.query.inputs) ||
        !AllDense(request.outputs, request.query.outputs)) {
      return InternalError(StrCat("the cuda backend offers no kernel '", request.variant, "' for ",
                                  request.query.op, " with these types and dense operands"));
    }
    if (work->scratch_bytes > request.scratch_bytes) {
      return InternalError(StrCat("kernel '", request.variant, "' of ", request.query.op, " needs ",
                                  work->scratch_bytes, " bytes of scratch, not ",
                                  request.scratch_bytes));
    }
    std::vector<ReadyLaunch> launches;
    for (CudaLaunch& launch : work->launches) {
      ReadyLaunch& ready = launches.emplace_back();
      if (launch.matmul.has_value()) {
        MILLRACE_ASSIGN_OR_RETURN(ready.matmul, PrepareMatMul(*request.device, *launch.matmul));
      } else if (launch.convolution.has_value()) {
        MILLRACE_ASSIGN_OR_RETURN(ready.convolution,
                                  PrepareConvolution(*request.device, *launch.convolution));
      } else {
        MILLRACE_ASSIGN_OR_RETURN(ready.loaded, Find(*request.device, launch));
      }
      ready.launch = std::move(launch);
    }
    return std::make_unique<CudaKernel>(std::move(launches));
  }

 private:
  absl::StatusOr<std::unique_ptr<CublasLtMatMul>> PrepareMatMul(Device& device,
                                                                const CudaMatMul& call) {
    if (libraries_.cublaslt == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(libraries_.cublaslt, LoadCublasLt());
    }
    std::weak_ptr<CublasLtHandle>& known = handles_[&device];
    std::shared_ptr<CublasLtHandle> handle = known.lock();
    if (handle == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(handle, CublasLtHandle::Create(*libraries_.cublaslt, device));
      known = handle;
    }
    MILLRACE_RETURN_IF_ERROR(MakeCudaDeviceCurrent(device));
    return CublasLtMatMul::Prepare(std::move(handle), call);
  }

  absl::StatusOr<std::unique_ptr<CudnnConvolution>> PrepareConvolution(
      Device& device, const CudaConvolution& call) {
    if (libraries_.cudnn == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(libraries_.cudnn, LoadCudnn());
    }
    std::weak_ptr<CudnnHandle>& known = cudnn_handles_[&device];
    std::shared_ptr<CudnnHandle> handle = known.lock();
    if (handle == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(handle, CudnnHandle::Create(*libraries_.cudnn, device));
      known = handle;
    }
    MILLRACE_RETURN_IF_ERROR(MakeCudaDeviceCurrent(device));
    return CudnnConvolution::Prepare(std::move(handle), call);
  }

  // Loaded before and still in use, or compiled and loaded now.
  absl::StatusOr<std::shared_ptr<LoadedFunction>> Find(Device& device, const CudaLaunch& launch) {
    std::weak_ptr<LoadedFunction>& known = loaded_[{&device, launch.function}];
    if (std::shared_ptr<LoadedFunction> loaded = known.lock()) return loaded;
    MILLRACE_ASSIGN_OR_RETURN(const int sm, SmVersionOfCudaDevice(device));
    MILLRACE_ASSIGN_OR_RETURN(const std::string image, libraries_.compiler->Compile(launch, sm));
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<LoadedFunction> loaded,
                              LoadedFunction::Load(device, image, launch.function));
    known = loaded;
    return loaded;
  }

  CudaLibraries libraries_;
  std::map<Device*, std::weak_ptr<CublasLtHandle>> handles_;
  std::map<Device*, std::weak_ptr<CudnnHandle>> cudnn_handles_;
  std::map<std::pair<Device*, std::string>, std::weak_ptr<LoadedFunction>> loaded_;
};

}  // namespace

std::unique_ptr<KernelLibrary> CreateCudaKernelLibrary(CudaLibraries libraries) {
  return std::make_unique<CudaKernelLibrary>(std::move(libraries));
}

}  // namespace millrace
