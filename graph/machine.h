// MachineSpec: devices, memories, links and nodes of a machine, real or imagined, with their rates.
// Compact: devices of one kind are described once, nodes of one kind once, so a 4,096-GPU cluster is
// one page. Planning needs only this, not the hardware. JSON: "millrace-machine" 1.0.
#ifndef MILLRACE_GRAPH_MACHINE_H_
#define MILLRACE_GRAPH_MACHINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/diagnostics.h"
#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

struct DeviceSpec {
  std::string name;                    // of this kind of device: "h100-sxm", "xeon-core"
  std::string kind;                    // backend: "cpu" or "cuda"
  std::string model;                   // free text
  int64_t memory_bytes = 0;            // what plans may use
  double memory_bandwidth = 0;         // bytes/s, stream copy counts read + write
  std::map<DType, double> peak_flops;  // FLOP/s, 2 per multiply-add; at least one entry
  double launch_overhead_us = 0;       // one kernel, back to back
  int threads = 1;                     // cpu: worker threads of this device
  int copy_engines = 1;                // transfers that can run beside compute
  std::string arch;                    // cuda: "sm_90"; cpu: "avx512_core_bf16"; may be empty
};

struct LinkSpec {
  double bandwidth = 0;     // bytes/s, each direction
  double latency_us = 0;
  bool full_duplex = true;
};

struct NodeSpec {
  int64_t count = 1;                                    // nodes like this
  std::vector<std::pair<std::string, int64_t>> devices; // (DeviceSpec name, how many), in order
  int64_t host_memory_bytes = 0;
  double host_memory_bandwidth = 0;  // bytes/s
  LinkSpec host_link;                // each device to host memory
  LinkSpec peer_link;                // device to device within the node
};

struct MachineSpec {
  std::string name;
  std::vector<DeviceSpec> devices;
  std::vector<NodeSpec> nodes;
  LinkSpec network;           // between nodes, per node
  double file_bandwidth = 0;  // bytes/s of the offload folder; 0: none
};

// A device of the machine: "cuda:5" is the sixth device of kind cuda over all nodes in order.
struct DeviceLocation {
  const DeviceSpec* spec = nullptr;
  int64_t node = 0;        // linear node index
  int64_t index = 0;       // among its kind, over the machine
};

int64_t CountDevices(const MachineSpec& machine, std::string_view kind);
// BadInputError naming what the machine has when there is no such device.
absl::StatusOr<DeviceLocation> FindDevice(const MachineSpec& machine, std::string_view kind,
                                          int64_t index);

// "cuda:3" -> ("cuda", 3); a bare "cpu" is index 0. UsageError otherwise.
absl::StatusOr<std::pair<std::string, int64_t>> ParseDeviceName(std::string_view name);

// Problems: names used twice or never defined, rates <= 0, counts < 1.
void VerifyMachine(const MachineSpec& machine, Diagnostics& diagnostics);

absl::StatusOr<MachineSpec> ParseMachine(std::string_view json, std::string_view file);
absl::StatusOr<MachineSpec> LoadMachine(const std::string& path);
std::string MachineToJson(const MachineSpec& machine);
std::string ToText(const MachineSpec& machine);  // a few lines for people

}  // namespace millrace

#endif  // MILLRACE_GRAPH_MACHINE_H_
