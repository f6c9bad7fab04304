#include "tools/binding.h"

#include <algorithm>

#include "distributed/in_process.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_target.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host_machine.h"
#include "tools/machine_name.h"
#include "tools/plan_devices.h"
#ifdef MILLRACE_HAVE_CUDA
#include "runtime/cuda/cuda_driver.h"
#endif

namespace millrace {
namespace {

absl::Status NoKernels(std::string_view device_kind) {
  return UsageError(
      StrCat("this build has no kernels for ", device_kind, " devices; it has them for: cpu"));
}

}  // namespace

absl::StatusOr<MachineSpec> LoadMachineOrDetect(const std::string& path, int cpu_devices) {
  if (!path.empty()) return LoadMachine(MachineFileOf(path));
  return DetectHostMachine(cpu_devices, /*threads_per_device=*/0);
}

absl::StatusOr<std::unique_ptr<Target>> MakeTarget(std::string_view device_kind, int max_threads) {
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

absl::StatusOr<BoundDevices> BoundDevices::Bind(const PlanBundle& plan, const MachineSpec& machine,
                                                const std::string& offload_directory) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, AllDeviceNames(plan));
  BoundDevices bound;
  bound.cpu_kernels_ = CreateCpuKernelLibrary();
  bound.reference_kernels_ = CreateReferenceKernelLibrary();
  bound.communicator_ = CreateInProcessCommunicator();
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(name));
    if (device.first != "cpu") return NoKernels(device.first);
    MILLRACE_ASSIGN_OR_RETURN(const DeviceLocation location,
                              FindDevice(machine, device.first, device.second));
    bound.devices_.push_back(CreateCpuDevice({.name = name,
                                              .memory_bytes = location.spec->memory_bytes,
                                              .offload_directory = offload_directory}));
    bound.table_[name] = {.device = bound.devices_.back().get(),
                          .kernels = bound.cpu_kernels_.get(),
                          .host_kernels = bound.reference_kernels_.get()};
  }
  return bound;
}

}  // namespace millrace
