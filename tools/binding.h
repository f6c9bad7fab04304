// Binds plans to devices of this process: which backends there are, what each can do (Target), and
// which kernel libraries serve it. The only place that knows backends by name.
#ifndef MILLRACE_TOOLS_BINDING_H_
#define MILLRACE_TOOLS_BINDING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/job.h"
#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/target.h"
#include "runtime/communicator.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/device_table.h"

namespace millrace {

// The machine of `path`, or this one, split into `cpu_devices` cpu devices, when it is empty.
absl::StatusOr<MachineSpec> LoadMachineOrDetect(const std::string& path, int cpu_devices);

// What the backend of "cpu" or "cuda" offers to teams of up to `max_threads`, or of any usual size
// when 0. UsageError for a backend that this build has no kernels for.
absl::StatusOr<std::unique_ptr<Target>> MakeTarget(std::string_view device_kind,
                                                   int max_threads = 0);

// A GPU of this machine.
struct CudaDevice {
  std::string name;   // "cuda:0"
  std::string model;  // "NVIDIA H100 80GB HBM3"
  std::string bus_id;
  std::string arch;  // "sm_90"
  int64_t memory_bytes = 0;
};
// DeviceError saying why there is none: no driver, no GPU, or a build without CUDA.
absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices();

// The devices that a plan names, with their kernel libraries, and a communicator between them.
// Outlives the session.
class BoundDevices {
 public:
  // Of a job, the devices of this rank, once all ranks have found that their plans are the same;
  // null: all devices. `machine` gives each device its budget; `offload_directory` is where buffers
  // in files lie, or empty. UsageError for what the machine or this build lacks, DistributedError
  // for plans that differ, DeviceError for a driver that does not load.
  static absl::StatusOr<BoundDevices> Bind(const PlanBundle& plan, const MachineSpec& machine,
                                           const std::string& offload_directory,
                                           Job* job = nullptr);

  const DeviceTable& table() const { return table_; }
  Communicator* communicator() const { return communicator_.get(); }

 private:
  BoundDevices() = default;
  absl::Status BindCpu(const std::string& name, const DeviceSpec& spec,
                       const std::string& offload_directory, const HostAllocator& allocate);
  absl::Status BindCuda(const std::string& name, const DeviceSpec& spec, int index,
                        const std::string& offload_directory);

  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<KernelLibrary> cpu_kernels_, reference_kernels_, cuda_kernels_;
  std::unique_ptr<Communicator> communicator_;
  DeviceTable table_;
};

}  // namespace millrace

#endif  // MILLRACE_TOOLS_BINDING_H_
