// `millrace machine`: what a machine description says, checked; or which ones there are.
#include "absl/strings/str_join.h"
#include "graph/machine.h"
#include "graph/strings.h"
#include "tools/command.h"
#include "tools/machine_name.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct MachineOptions {
  std::string name;
  bool json = false;
};

std::string LinkText(const LinkSpec& link) {
  if (link.bandwidth <= 0) return "-";
  return StrCat(FormatSi(link.bandwidth, "B/s"), link.full_duplex ? " each way" : " both ways",
                ", ", FormatDuration(link.latency_us));
}

std::string DevicesOfNode(const NodeSpec& node) {
  return absl::StrJoin(node.devices, ", ", [](std::string* out, const auto& devices) {
    StrAppend(out, devices.second, " x ", devices.first);
  });
}

std::string MachinePage(const MachineSpec& machine) {
  Table devices({"device", "kind", "model", ">memory", ">bandwidth", "peak"});
  for (const DeviceSpec& device : machine.devices) {
    const auto peak = [](std::string* out, const auto& entry) {
      StrAppend(out, DTypeName(entry.first), " ", FormatSi(entry.second, "FLOP/s"));
    };
    devices.Row({device.name, device.kind, device.model,
                 FormatBytes(static_cast<double>(device.memory_bytes)),
                 FormatSi(device.memory_bandwidth, "B/s"),
                 absl::StrJoin(device.peak_flops, ", ", peak)});
  }
  Table nodes({">nodes", "devices of each", ">host memory", "host link", "peer link"});
  for (const NodeSpec& node : machine.nodes) {
    nodes.Row({FormatCount(node.count), DevicesOfNode(node),
               FormatBytes(static_cast<double>(node.host_memory_bytes)), LinkText(node.host_link),
               LinkText(node.peer_link)});
  }
  std::string page = StrCat(machine.name, ": ", FormatCount(CountDevices(machine, "cuda")),
                            " cuda and ", FormatCount(CountDevices(machine, "cpu")),
                            " cpu devices\n\n", devices.ToString(), "\n", nodes.ToString());
  if (machine.network.bandwidth > 0) {
    StrAppend(&page, "\nnetwork of a node: ", LinkText(machine.network), "\n");
  }
  if (machine.file_bandwidth > 0) {
    StrAppend(&page, "offload files: ", FormatSi(machine.file_bandwidth, "B/s"), "\n");
  }
  return page;
}

absl::Status ListMachines(const MachineOptions& options) {
  Json document = JsonHeader("millrace-machines");
  document["machines"] = Json::array();
  Table table({"machine", ">cuda devices", ">cpu devices"});
  for (const std::string& name : KnownMachines()) {
    MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadMachine(MachineFileOf(name)));
    const int64_t cuda = CountDevices(machine, "cuda"), cpu = CountDevices(machine, "cpu");
    table.Row({name, FormatCount(cuda), FormatCount(cpu)});
    document["machines"].push_back({{"name", name}, {"cuda", cuda}, {"cpu", cpu}});
  }
  if (options.json) {
    PrintJson(document);
  } else {
    Print(table.ToString());
  }
  return absl::OkStatus();
}

absl::Status RunMachine(const MachineOptions& options) {
  if (options.name.empty()) return ListMachines(options);
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadMachine(MachineFileOf(options.name)));
  if (options.json) {
    Print(StrCat(MachineToJson(machine), "\n"));
  } else {
    Print(MachinePage(machine));
  }
  return absl::OkStatus();
}

void DeclareMachineOptions(OptionList& list, MachineOptions& options) {
  list.Text("name", "FILE|NAME", options.name,
            "A file, or the name of one of tools/machines; without one, those are listed");
  list.Flag("--json", options.json, "Print the description, or the list, as JSON");
}

}  // namespace

void AddMachineCommand(CommandLine& line) {
  AddCommand<MachineOptions>(line, "machine", "Print and check the description of a machine",
                             RunMachine, DeclareMachineOptions);
}

}  // namespace millrace
