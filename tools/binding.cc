#include "tools/binding.h"

#include <algorithm>

#include "distributed/in_process.h"
#include "distributed/process_communicator.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "ops/cuda/cuda_target.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_machine.h"
#include "tools/machine_name.h"
#include "tools/plan_devices.h"
#ifdef MILLRACE_HAVE_CUDA
#include "ops/cuda/driver_kernels.h"
#include "ops/cuda/nvrtc_compiler.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_driver.h"
#endif

namespace millrace {
namespace {

absl::Status NoKernels(std::string_view device_kind) {
#ifdef MILLRACE_HAVE_CUDA
  constexpr std::string_view kKinds = "cpu, cuda";
#else
  constexpr std::string_view kKinds = "cpu";
#endif
  return UsageError(
      StrCat("this build has no kernels for ", device_kind, " devices; it has them for: ", kKinds));
}

}  // namespace

absl::StatusOr<MachineSpec> LoadMachineOrDetect(const std::string& path, int cpu_devices) {
  if (!path.empty()) return LoadMachine(MachineFileOf(path));
  return DetectHostMachine(cpu_devices, /*threads_per_device=*/0);
}

absl::StatusOr<std::unique_ptr<Target>> MakeTarget(std::string_view device_kind, int max_threads) {
  if (device_kind == "cuda") return std::make_unique<CudaTarget>();
  if (device_kind != "cpu") return NoKernels(device_kind);
  return std::make_unique<CpuTarget>(std::max(max_threads, kDefaultMaxTeam));
}

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
#ifdef MILLRACE_HAVE_CUDA
  MILLRACE_ASSIGN_OR_RETURN(const CudaDriver* driver, LoadCudaDriver());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<CudaDeviceInfo> infos, ListCudaDevices(*driver));
  std::vector<CudaDevice> devices;
  for (const CudaDeviceInfo& info : infos) {
    devices.push_back({.name = StrCat("cuda:", info.ordinal),
                       .model = info.name,
                       .bus_id = info.bus_id,
                       .arch = StrCat("sm_", info.sm_version),
                       .memory_bytes = info.memory_bytes});
  }
  return devices;
#else
  return DeviceError("this build has no CUDA backend");
#endif
}

absl::Status BoundDevices::BindCpu(const std::string& name, const DeviceSpec& spec,
                                   const std::string& offload_directory,
                                   const HostAllocator& allocate) {
  devices_.push_back(CreateCpuDevice({.name = name,
                                      .memory_bytes = spec.memory_bytes,
                                      .offload_directory = offload_directory,
                                      .allocate = allocate}));
  table_[name] = {.device = devices_.back().get(),
                  .kernels = cpu_kernels_.get(),
                  .host_kernels = reference_kernels_.get()};
  return absl::OkStatus();
}

#ifdef MILLRACE_HAVE_CUDA

absl::Status BoundDevices::BindCuda(const std::string& name, const DeviceSpec& spec, int index,
                                    const std::string& offload_directory) {
  MILLRACE_ASSIGN_OR_RETURN(const CudaDriver* driver, LoadCudaDriver());
  if (cuda_kernels_ == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CudaCompiler> compiler, CreateNvrtcCompiler());
    const std::string folder = KernelCacheFolder();
    if (!folder.empty()) compiler = CacheOnDisk(std::move(compiler), folder);
    cuda_kernels_ = CreateCudaKernelLibrary({.compiler = std::move(compiler)});
  }
  CudaDeviceOptions options;
  options.name = name;
  options.ordinal = index;
  options.memory_bytes = spec.memory_bytes;
  options.offload_directory = offload_directory;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, CreateCudaDevice(*driver, options));
  devices_.push_back(std::move(device));
  table_[name] = {.device = devices_.back().get(),
                  .kernels = cuda_kernels_.get(),
                  .host_kernels = reference_kernels_.get()};
  return absl::OkStatus();
}

#else

absl::Status BoundDevices::BindCuda(const std::string&, const DeviceSpec&, int,
                                    const std::string&) {
  return NoKernels("cuda");
}

#endif

absl::StatusOr<BoundDevices> BoundDevices::Bind(const PlanBundle& plan, const MachineSpec& machine,
                                                const std::string& offload_directory, Job* job) {
  BoundDevices bound;
  HostAllocator allocate;  // null: the device's own
  std::vector<std::string> names;
  if (job != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(names, DeviceNamesOfRank(plan, job->rank(), job->size()));
    MILLRACE_RETURN_IF_ERROR(job->Agree("plan", ContentHash(plan)));
    std::unique_ptr<ProcessCommunicator> communicator = CreateProcessCommunicator(*job);
    allocate = [memory = communicator->memory()](MemorySpace space, int64_t size_bytes) mutable {
      return memory.Allocate(space, size_bytes);
    };
    bound.communicator_ = std::move(communicator);
  } else {
    MILLRACE_ASSIGN_OR_RETURN(names, AllDeviceNames(plan));
    bound.communicator_ = CreateInProcessCommunicator();
  }
  bound.cpu_kernels_ = CreateCpuKernelLibrary();
  bound.reference_kernels_ = CreateReferenceKernelLibrary();
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(name));
    const auto& [kind, index] = device;
    if (kind != "cpu" && kind != "cuda") return NoKernels(kind);
    MILLRACE_ASSIGN_OR_RETURN(const DeviceLocation location, FindDevice(machine, kind, index));
    if (kind == "cuda" && job != nullptr) {
      return DeviceError(
          StrCat("device ", name, ": processes share the memory of cpu devices only"));
    }
    MILLRACE_RETURN_IF_ERROR(kind == "cpu"
                                 ? bound.BindCpu(name, *location.spec, offload_directory, allocate)
                                 : bound.BindCuda(name, *location.spec, index, offload_directory));
  }
  return bound;
}

}  // namespace millrace
