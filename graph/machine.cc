#include "graph/machine.h"

#include <cmath>
#include <cstdio>
#include <span>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kMaxKinds = 1024;               // of devices, of nodes, of devices in a node
constexpr int64_t kMaxCount = int64_t{1} << 20;  // of nodes alike, of devices in a node, of threads

const DeviceSpec* FindSpec(const MachineSpec& machine, std::string_view name) {
  for (const DeviceSpec& device : machine.devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

// Devices of `kind` in one node.
int64_t CountInNode(const MachineSpec& machine, const NodeSpec& node, std::string_view kind) {
  int64_t count = 0;
  for (const auto& [name, n] : node.devices) {
    const DeviceSpec* spec = FindSpec(machine, name);
    if (spec != nullptr && spec->kind == kind) count += n;
  }
  return count;
}

int64_t CountInNode(const NodeSpec& node) {
  int64_t count = 0;
  for (const auto& [name, n] : node.devices) count += n;
  return count;
}

// "8 cuda (cuda:0 to cuda:7), 1 cpu (cpu:0)"
std::string DescribeDevices(const MachineSpec& machine) {
  std::vector<std::string> parts;
  for (const std::string_view kind : {"cuda", "cpu"}) {
    const int64_t n = CountDevices(machine, kind);
    if (n == 0) continue;
    const std::string last = n == 1 ? "" : StrCat(" to ", kind, ":", n - 1);
    parts.push_back(StrCat(n, " ", kind, " (", kind, ":0", last, ")"));
  }
  return parts.empty() ? "no device" : absl::StrJoin(parts, ", ");
}

// --- Verification -------------------------------------------------------------------------------

class MachineVerifier {
 public:
  MachineVerifier(const MachineSpec& machine, Diagnostics& diagnostics)
      : machine_(machine), diagnostics_(diagnostics) {}

  void Run() {
    if (machine_.devices.size() > kMaxKinds || machine_.nodes.size() > kMaxKinds) {
      Add("", "too many kinds of devices or nodes", StrCat("at most ", kMaxKinds, " of each"));
      return;
    }
    if (machine_.name.empty()) Add("/name", "the machine has no name");
    if (machine_.devices.empty()) Add("/devices", "the machine describes no device");
    if (machine_.nodes.empty()) Add("/nodes", "the machine has no node");
    for (size_t i = 0; i < machine_.devices.size(); ++i) CheckDevice(i);
    int64_t nodes = 0;
    for (size_t i = 0; i < machine_.nodes.size(); ++i) {
      CheckNode(i);
      nodes += machine_.nodes[i].count;
    }
    CheckLink("/network", machine_.network, nodes > 1, "several nodes");
    if (!(machine_.file_bandwidth >= 0) || std::isinf(machine_.file_bandwidth)) {
      Add("/file_bandwidth", "not a rate", "bytes/s, or 0 for none", "",
          StrCat(machine_.file_bandwidth));
    }
  }

 private:
  void Add(std::string pointer, std::string message, std::string expected = "",
           std::string hint = "", std::string found = "") {
    Diagnostic d;
    d.pointer = std::move(pointer);
    d.message = std::move(message);
    d.expected = std::move(expected);
    d.found = std::move(found);
    d.hint = std::move(hint);
    diagnostics_.Add(std::move(d));
  }

  void CheckRate(std::string pointer, double rate, std::string_view unit) {
    if (!(rate > 0) || std::isinf(rate)) {
      Add(std::move(pointer), "not a rate", StrCat("more than 0 ", unit), "", StrCat(rate));
    }
  }
  void CheckTime(std::string pointer, double time_us) {
    if (!(time_us >= 0) || std::isinf(time_us)) {
      Add(std::move(pointer), "not a time", "0 or more microseconds", "", StrCat(time_us));
    }
  }
  void CheckCount(std::string pointer, int64_t count) {
    if (count < 1 || count > kMaxCount) {
      Add(std::move(pointer), "out of range", StrCat("1 to ", kMaxCount), "", StrCat(count));
    }
  }

  // A link that nothing needs may be left out (bandwidth 0).
  void CheckLink(const std::string& pointer, const LinkSpec& link, bool needed,
                 std::string_view why) {
    if (link.bandwidth == 0 && link.latency_us == 0) {
      if (needed) Add(pointer, "no bandwidth is given", StrCat("one, because of ", why));
      return;
    }
    CheckRate(pointer + "/bandwidth", link.bandwidth, "bytes/s");
    CheckTime(pointer + "/latency_us", link.latency_us);
  }

  void CheckDevice(size_t i) {
    const DeviceSpec& device = machine_.devices[i];
    const std::string at = StrCat("/devices/", i);
    if (device.name.empty()) Add(at + "/name", "the device has no name");
    if (FindSpec(machine_, device.name) != &device) {
      Add(at + "/name", StrCat("device '", device.name, "' is described twice"));
    }
    if (device.kind != "cpu" && device.kind != "cuda") {
      Add(at + "/kind", StrCat("unknown kind '", device.kind, "'"), "\"cpu\" or \"cuda\"");
    }
    if (device.memory_bytes < 1 || device.memory_bytes > kMaxBytes) {
      Add(at + "/memory_bytes", "out of range", StrCat("1 to ", kMaxBytes));
    }
    CheckRate(at + "/memory_bandwidth", device.memory_bandwidth, "bytes/s");
    if (device.peak_flops.empty()) Add(at + "/peak_flops", "no rate is given", "at least one");
    for (const auto& [dtype, rate] : device.peak_flops) {
      CheckRate(StrCat(at, "/peak_flops/", DTypeName(dtype)), rate, "FLOP/s");
    }
    CheckTime(at + "/launch_overhead_us", device.launch_overhead_us);
    CheckCount(at + "/threads", device.threads);
    if (device.copy_engines < 0) Add(at + "/copy_engines", "out of range", "0 or more");
  }

  void CheckNode(size_t i) {
    const NodeSpec& node = machine_.nodes[i];
    const std::string at = StrCat("/nodes/", i);
    CheckCount(at + "/count", node.count);
    if (node.devices.empty() || node.devices.size() > kMaxKinds) {
      Add(at + "/devices", node.devices.empty() ? "the node has no device" : "too many devices",
          StrCat("1 to ", kMaxKinds));
      return;
    }
    std::vector<std::string> known;
    for (const DeviceSpec& device : machine_.devices) known.push_back(device.name);
    for (size_t j = 0; j < node.devices.size(); ++j) {
      const auto& [name, count] = node.devices[j];
      if (FindSpec(machine_, name) == nullptr) {
        Add(StrCat(at, "/devices/", j, "/name"), StrCat("device '", name, "' is not described"), "",
            DidYouMean(name, known));
      }
      CheckCount(StrCat(at, "/devices/", j, "/count"), count);
    }
    if (node.host_memory_bytes < 0 || node.host_memory_bytes > kMaxBytes) {
      Add(at + "/host_memory_bytes", "out of range", StrCat("0 to ", kMaxBytes));
    }
    if (!(node.host_memory_bandwidth >= 0) || std::isinf(node.host_memory_bandwidth)) {
      Add(at + "/host_memory_bandwidth", "not a rate", "0 or more bytes/s");
    }
    CheckLink(at + "/host_link", node.host_link, CountInNode(machine_, node, "cuda") > 0,
              "cuda devices");
    CheckLink(at + "/peer_link", node.peer_link, CountInNode(node) > 1, "several devices");
  }

  const MachineSpec& machine_;
  Diagnostics& diagnostics_;
};

// --- Text ---------------------------------------------------------------------------------------

std::string Fixed(double value, std::string_view unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.4g", value);
  return StrCat(buffer, " ", unit);
}

std::string Bytes(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return Fixed(value, kUnits[unit]);
}

std::string LinkText(const LinkSpec& link) {
  if (link.bandwidth == 0) return "none";
  return StrCat(Fixed(link.bandwidth / 1e9, "GB/s"), " ", Fixed(link.latency_us, "us"),
                link.full_duplex ? "" : " half duplex");
}

}  // namespace

int64_t CountDevices(const MachineSpec& machine, std::string_view kind) {
  int64_t count = 0;
  for (const NodeSpec& node : machine.nodes) {
    count += node.count * CountInNode(machine, node, kind);
  }
  return count;
}

absl::StatusOr<DeviceLocation> FindDevice(const MachineSpec& machine, std::string_view kind,
                                          int64_t index) {
  int64_t first_node = 0, before = 0;  // of the nodes and devices passed by
  for (const NodeSpec& node : machine.nodes) {
    const int64_t per_node = CountInNode(machine, node, kind);
    const int64_t here = index - before;
    if (here < 0) break;
    if (per_node > 0 && here < per_node * node.count) {
      int64_t in_node = here % per_node;
      for (const auto& [name, count] : node.devices) {
        const DeviceSpec* spec = FindSpec(machine, name);
        if (spec == nullptr || spec->kind != kind) continue;
        if (in_node < count) return DeviceLocation{spec, first_node + here / per_node, index};
        in_node -= count;
      }
    }
    before += per_node * node.count;
    first_node += node.count;
  }
  return BadInputError(StrCat("machine '", machine.name, "' has no device ", kind, ":", index,
                              "; it has ", DescribeDevices(machine)));
}

absl::StatusOr<std::pair<std::string, int64_t>> ParseDeviceName(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  bool ok = !kind.empty();
  for (const char c : kind) ok &= c >= 'a' && c <= 'z';
  int32_t index = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    ok &= digits.find_first_not_of("0123456789") == std::string_view::npos;
    ok &= absl::SimpleAtoi(AbslView(digits), &index);
  }
  if (!ok) {
    return UsageError(
        StrCat("'", name, "' is not a device; expected kind:index, as in \"cuda:0\""));
  }
  return std::make_pair(std::string(kind), int64_t{index});
}

void VerifyMachine(const MachineSpec& machine, Diagnostics& diagnostics) {
  MachineVerifier(machine, diagnostics).Run();
}

std::string ToText(const MachineSpec& machine) {
  std::string text = StrCat("machine '", machine.name, "': ", DescribeDevices(machine), "\n");
  for (const DeviceSpec& d : machine.devices) {
    const std::string rates =
        absl::StrJoin(d.peak_flops, ", ", [](std::string* out, const auto& rate) {
          StrAppend(out, DTypeName(rate.first), " ", Fixed(rate.second / 1e12, "TFLOP/s"));
        });
    StrAppend(
        &text, "  ", d.kind, " '", d.name, "'", d.arch.empty() ? "" : " ", d.arch, ": ",
        Bytes(d.memory_bytes), " at ", Fixed(d.memory_bandwidth / 1e9, "GB/s"), "; ", rates,
        "; launch ", Fixed(d.launch_overhead_us, "us"), "; ",
        d.kind == "cpu" ? StrCat(d.threads, " threads") : StrCat(d.copy_engines, " copy engines"),
        "\n");
  }
  for (const NodeSpec& node : machine.nodes) {
    const std::string devices =
        absl::StrJoin(node.devices, ", ", [](std::string* out, const auto& device) {
          StrAppend(out, device.second, " ", device.first);
        });
    StrAppend(&text, "  ", node.count, node.count == 1 ? " node" : " nodes", " of ", devices,
              "; host memory ", Bytes(node.host_memory_bytes), "; to host ",
              LinkText(node.host_link), "; between devices ", LinkText(node.peer_link), "\n");
  }
  StrAppend(&text, "  network ", LinkText(machine.network), "; file ",
            machine.file_bandwidth > 0 ? Fixed(machine.file_bandwidth / 1e9, "GB/s") : "none",
            "\n");
  return text;
}

}  // namespace millrace
