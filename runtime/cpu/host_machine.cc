#include "runtime/cpu/host_machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// --- Low estimates of rates
// -----------------------------------------------------------------------
constexpr double kClockHz = 2e9;             // sustained under full vector load
constexpr double kBandwidthPerCore = 5e9;    // bytes/s one core streams beside busy others
constexpr double kMostBandwidth = 40e9;      // of one memory controller group
constexpr double kLaunchOverheadUs = 0.1;    // a kernel call with a small team
constexpr double kPeerLatencyUs = 1;         // hand-off between two threads
constexpr double kFileBandwidth = 200e6;     // bytes/s, a slow disk
constexpr double kNetworkBandwidth = 100e6;  // bytes/s, 1 Gb/s Ethernet
constexpr double kNetworkLatencyUs = 50;

struct VectorUnit {
  const char* arch;          // as DeviceSpec::arch has it
  double f32_flops_a_cycle;  // 2 per multiply-add
};

VectorUnit DetectVectorUnit() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
    return {"avx512_core", 32};  // one 512-bit unit: not every core has two
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"avx2", 32};
  return {"sse41", 8};
#elif defined(__aarch64__)
  return {"neon", 16};
#else
  return {"", 2};
#endif
}

// --- What the system says
// ------------------------------------------------------------------------- The folder of this
// process's control group (version 2, then the controller's of version 1), and those above it: a
// limit anywhere on the way up holds.
std::vector<std::string> ControlGroupFolders(std::string_view controller) {
  std::vector<std::string> folders;
  const absl::StatusOr<std::string> groups = ReadFile("/proc/self/cgroup");
  if (!groups.ok()) return folders;
  for (absl::string_view line : absl::StrSplit(*groups, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    std::string root;
    if (parts[1].empty()) {
      root = "/sys/fs/cgroup";
    } else {
      const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
      if (std::ranges::find(controllers, controller) == controllers.end()) continue;
      root = StrCat("/sys/fs/cgroup/", controller);
    }
    // Inside a container the path may be the host's; what is visible then lies at the root.
    for (std::string path = parts[2]; path.size() > 1; path.resize(path.rfind('/'))) {
      folders.push_back(root + path);
    }
    folders.push_back(root);
  }
  return folders;
}

// The numbers in the first line of a small file; "max" and the like are left out.
std::vector<int64_t> NumbersIn(const std::string& path) {
  std::vector<int64_t> numbers;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return numbers;
  for (absl::string_view word : absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (int64_t number = 0; absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

std::string CpuModel() {
  const absl::StatusOr<std::string> info = ReadFile("/proc/cpuinfo");
  if (!info.ok()) return "";
  for (absl::string_view line : absl::StrSplit(*info, '\n')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(entry.first) != "model name") continue;
    return std::string(absl::StripAsciiWhitespace(entry.second));
  }
  return "";
}

}  // namespace

int64_t HostMemoryBytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const std::string& folder : ControlGroupFolders("memory")) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
      const std::vector<int64_t> limit = NumbersIn(folder + file);
      if (!limit.empty() && limit[0] > 0) bytes = std::min(bytes, limit[0]);
    }
  }
  return bytes;
}

int HostCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int64_t cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                               : sysconf(_SC_NPROCESSORS_ONLN);
  const auto limit = [&](int64_t quota, int64_t period) {
    if (quota > 0 && period > 0) cores = std::min(cores, (quota + period - 1) / period);
  };
  for (const std::string& folder : ControlGroupFolders("cpu")) {
    const std::vector<int64_t> both = NumbersIn(folder + "/cpu.max");  // "200000 100000"
    if (both.size() == 2) limit(both[0], both[1]);
    const std::vector<int64_t> quota = NumbersIn(folder + "/cpu.cfs_quota_us");
    const std::vector<int64_t> period = NumbersIn(folder + "/cpu.cfs_period_us");
    if (!quota.empty() && !period.empty()) limit(quota[0], period[0]);
  }
  return static_cast<int>(std::max<int64_t>(cores, 1));
}

MachineSpec DetectHostMachine(int cpu_devices, int threads_per_device) {
  const int devices = std::max(cpu_devices, 1);
  const VectorUnit unit = DetectVectorUnit();
  const int64_t memory_bytes = HostMemoryBytes();
  const double all_bandwidth = std::min(kBandwidthPerCore * HostCores(), kMostBandwidth);

  DeviceSpec device;
  device.name = "host-cpu";
  device.kind = "cpu";
  device.model = CpuModel();
  device.memory_bytes = memory_bytes / devices;
  device.memory_bandwidth = all_bandwidth / devices;
  device.threads = threads_per_device > 0 ? threads_per_device : std::max(HostCores() / devices, 1);
  const double f32 = kClockHz * unit.f32_flops_a_cycle * device.threads;
  device.peak_flops = {{DType::kF32, f32}, {DType::kF64, f32 / 2}};
  device.launch_overhead_us = kLaunchOverheadUs;
  device.arch = unit.arch;

  NodeSpec node;
  node.devices = {{device.name, devices}};
  node.host_memory_bytes = memory_bytes;
  node.host_memory_bandwidth = all_bandwidth;
  // Copies within one memory read and write it.
  node.host_link = {.bandwidth = all_bandwidth / 2, .latency_us = 0, .full_duplex = true};
  node.peer_link = {.bandwidth = all_bandwidth / 2, .latency_us = kPeerLatencyUs};

  MachineSpec machine;
  machine.name = "host";
  machine.devices = {device};
  machine.nodes = {node};
  machine.network = {.bandwidth = kNetworkBandwidth, .latency_us = kNetworkLatencyUs};
  machine.file_bandwidth = kFileBandwidth;
  return machine;
}

}  // namespace millrace
