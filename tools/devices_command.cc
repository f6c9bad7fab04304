// `millrace devices`: the devices of this machine, and why there are no others.
#include <set>

#include "graph/machine.h"
#include "graph/strings.h"
#include "tools/binding.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct DevicesOptions {
  std::string machine;
  bool json = false;
};

std::string PeakText(const DeviceSpec& spec) {
  const auto peak = spec.peak_flops.find(DType::kF32);
  return peak == spec.peak_flops.end() ? "-" : FormatSi(peak->second, "FLOP/s");
}

// "cpu:0", or "cuda:0 to cuda:7" for neighbours of one spec.
std::string Range(const std::string& kind, int64_t begin, int64_t end) {
  const std::string name = StrCat(kind, ":", begin);
  return end == begin + 1 ? name : StrCat(name, " to ", kind, ":", end - 1);
}

absl::Status AddDevices(const MachineSpec& machine, const std::string& kind, Table& table) {
  const int64_t count = CountDevices(machine, kind);
  for (int64_t begin = 0, end; begin < count; begin = end) {
    MILLRACE_ASSIGN_OR_RETURN(const DeviceLocation first, FindDevice(machine, kind, begin));
    for (end = begin + 1; end < count; ++end) {
      MILLRACE_ASSIGN_OR_RETURN(const DeviceLocation next, FindDevice(machine, kind, end));
      if (next.spec != first.spec) break;
    }
    table.Row({Range(kind, begin, end), first.spec->model,
               FormatBytes(static_cast<double>(first.spec->memory_bytes)),
               FormatSi(first.spec->memory_bandwidth, "B/s"), PeakText(*first.spec),
               StrCat(first.spec->threads), first.spec->arch});
  }
  return absl::OkStatus();
}

Json ToJson(const MachineSpec& machine, const std::vector<CudaDevice>& gpus,
            const absl::Status& cuda) {
  Json document = JsonHeader("millrace-devices");
  document["machine"] = Json::parse(MachineToJson(machine), nullptr, /*allow_exceptions=*/false);
  document["cuda"] = Json::array();
  for (const CudaDevice& gpu : gpus) {
    document["cuda"].push_back({{"name", gpu.name},
                                {"model", gpu.model},
                                {"bus_id", gpu.bus_id},
                                {"memory_bytes", gpu.memory_bytes},
                                {"arch", gpu.arch}});
  }
  if (!cuda.ok()) document["cuda_unavailable"] = std::string(cuda.message());
  return document;
}

absl::Status Devices(const DevicesOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadMachineOrDetect(options.machine, 1));
  const bool here = options.machine.empty();
  const absl::StatusOr<std::vector<CudaDevice>> gpus =
      here ? ListCudaDevices() : std::vector<CudaDevice>();
  if (options.json) {
    PrintJson(ToJson(machine, gpus.value_or(std::vector<CudaDevice>()), gpus.status()));
    return absl::OkStatus();
  }
  Table table({"device", "model", ">memory", ">bandwidth", ">peak f32", ">threads", "arch"});
  std::set<std::string> kinds;
  for (const DeviceSpec& spec : machine.devices) kinds.insert(spec.kind);
  for (const std::string& kind : kinds) {
    MILLRACE_RETURN_IF_ERROR(AddDevices(machine, kind, table));
  }
  if (gpus.ok()) {
    for (const CudaDevice& gpu : *gpus) {
      table.Row({gpu.name, gpu.model, FormatBytes(static_cast<double>(gpu.memory_bytes)), "", "",
                 "", gpu.arch});
    }
  }
  Print(table.ToString());
  if (!gpus.ok()) Print(StrCat("\nno cuda devices: ", std::string(gpus.status().message()), "\n"));
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, DevicesOptions& options) {
  list.Text("--machine", "FILE", options.machine, "Those of a machine [this one]");
  list.Flag("--json", options.json, "Print as JSON");
}

}  // namespace

void AddDevicesCommand(CommandLine& line) {
  AddCommand<DevicesOptions>(line, "devices", "List the devices there are", Devices,
                             DeclareOptions);
}

}  // namespace millrace
