// The machine file, "millrace-machine" 1.0 (graph/schema/machine.schema.json).
#include <limits>

#include "graph/files.h"
#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/machine.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using Member = std::optional<JsonReader>;

// Each reads a member that is there into `to`; a fault leaves `to` alone and is in the diagnostics.
void Read(const Member& member, std::string* to) {
  if (!member.has_value()) return;
  if (auto s = member->String(1024, /*allow_empty=*/true)) *to = *std::move(s);
}
void Read(const Member& member, int64_t* to) {
  if (!member.has_value()) return;
  if (const auto i = member->Int(0, std::numeric_limits<int64_t>::max())) *to = *i;
}
void Read(const Member& member, int* to) {
  if (!member.has_value()) return;
  if (const auto i = member->Int(0, std::numeric_limits<int>::max())) *to = static_cast<int>(*i);
}
void Read(const Member& member, double* to) {
  if (!member.has_value()) return;
  if (const auto d = member->Number()) *to = *d;
}
void Read(const Member& member, bool* to) {
  if (!member.has_value()) return;
  if (const auto b = member->Bool()) *to = *b;
}

void ReadPeakFlops(const JsonReader& reader, std::map<DType, double>* to) {
  reader.ForEachMember([&](std::string_view key, const JsonReader& rate) {
    const std::optional<DType> dtype = ParseDType(key);
    if (!dtype.has_value()) {
      rate.Error(StrCat("unknown dtype '", key, "'"), "one like \"f32\"");
      return;
    }
    Read(rate, &(*to)[*dtype]);
  });
}

DeviceSpec ReadDevice(const JsonReader& reader) {
  DeviceSpec device;
  reader.OnlyKeys({"name", "kind", "model", "memory_bytes", "memory_bandwidth", "peak_flops",
                   "launch_overhead_us", "threads", "copy_engines", "arch"});
  Read(reader.Required("name"), &device.name);
  Read(reader.Required("kind"), &device.kind);
  Read(reader.Optional("model"), &device.model);
  Read(reader.Required("memory_bytes"), &device.memory_bytes);
  Read(reader.Required("memory_bandwidth"), &device.memory_bandwidth);
  if (const auto rates = reader.Required("peak_flops")) ReadPeakFlops(*rates, &device.peak_flops);
  Read(reader.Optional("launch_overhead_us"), &device.launch_overhead_us);
  Read(reader.Optional("threads"), &device.threads);
  Read(reader.Optional("copy_engines"), &device.copy_engines);
  Read(reader.Optional("arch"), &device.arch);
  return device;
}

void ReadLink(const Member& reader, LinkSpec* link) {
  if (!reader.has_value()) return;
  reader->OnlyKeys({"bandwidth", "latency_us", "full_duplex"});
  Read(reader->Required("bandwidth"), &link->bandwidth);
  Read(reader->Required("latency_us"), &link->latency_us);
  Read(reader->Optional("full_duplex"), &link->full_duplex);
}

NodeSpec ReadNode(const JsonReader& reader) {
  NodeSpec node;
  reader.OnlyKeys(
      {"count", "devices", "host_memory_bytes", "host_memory_bandwidth", "host_link", "peer_link"});
  Read(reader.Optional("count"), &node.count);
  if (const auto devices = reader.Required("devices")) {
    devices->ForEachElement([&](const JsonReader& device) {
      device.OnlyKeys({"name", "count"});
      auto& [name, count] = node.devices.emplace_back("", 1);
      Read(device.Required("name"), &name);
      Read(device.Optional("count"), &count);
    });
  }
  Read(reader.Optional("host_memory_bytes"), &node.host_memory_bytes);
  Read(reader.Optional("host_memory_bandwidth"), &node.host_memory_bandwidth);
  ReadLink(reader.Optional("host_link"), &node.host_link);
  ReadLink(reader.Optional("peer_link"), &node.peer_link);
  return node;
}

absl::StatusOr<MachineSpec> ReadMachine(const JsonDocument& document) {
  MachineSpec machine;
  Diagnostics diagnostics;
  const JsonReader root(document, diagnostics);
  if (!root.HasFormat("millrace-machine")) return diagnostics.ToStatus();
  root.OnlyKeys({"format", "version", "name", "devices", "nodes", "network", "file_bandwidth"});
  Read(root.Required("name"), &machine.name);
  if (const auto devices = root.Required("devices")) {
    devices->ForEachElement([&](const JsonReader& d) { machine.devices.push_back(ReadDevice(d)); });
  }
  if (const auto nodes = root.Required("nodes")) {
    nodes->ForEachElement([&](const JsonReader& n) { machine.nodes.push_back(ReadNode(n)); });
  }
  ReadLink(root.Optional("network"), &machine.network);
  Read(root.Optional("file_bandwidth"), &machine.file_bandwidth);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());

  Diagnostics findings;
  VerifyMachine(machine, findings);
  for (Diagnostic d : findings.shown()) {
    d.file = document.file();
    d.position = document.PositionOf(document.FollowPointer(d.pointer).offset);
    diagnostics.Add(std::move(d));
  }
  for (int64_t i = diagnostics.total(); i < findings.total(); ++i) diagnostics.Add({});
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return machine;
}

// --- Writing ------------------------------------------------------------------------------------

void AppendLink(std::string* out, std::string_view indent, std::string_view key,
                const LinkSpec& link) {
  if (link.bandwidth == 0 && link.latency_us == 0) return;
  StrAppend(out, ",\n", indent, "\"", key, "\": {\"bandwidth\": ", JsonNumber(link.bandwidth),
            ", \"latency_us\": ", JsonNumber(link.latency_us),
            ", \"full_duplex\": ", link.full_duplex ? "true" : "false", "}");
}

void AppendDevice(std::string* out, const DeviceSpec& device) {
  StrAppend(
      out, "    {\"name\": ", JsonString(device.name), ", \"kind\": ", JsonString(device.kind),
      ", \"model\": ", JsonString(device.model), ", \"arch\": ", JsonString(device.arch),
      ",\n     \"memory_bytes\": ", device.memory_bytes,
      ", \"memory_bandwidth\": ", JsonNumber(device.memory_bandwidth), ",\n     \"peak_flops\": {");
  std::string_view separator = "";
  for (const auto& [dtype, rate] : device.peak_flops) {
    StrAppend(out, separator, "\"", DTypeName(dtype), "\": ", JsonNumber(rate));
    separator = ", ";
  }
  StrAppend(out, "},\n     \"launch_overhead_us\": ", JsonNumber(device.launch_overhead_us),
            ", \"threads\": ", device.threads, ", \"copy_engines\": ", device.copy_engines, "}");
}

void AppendNode(std::string* out, const NodeSpec& node) {
  StrAppend(out, "    {\"count\": ", node.count, ", \"devices\": [");
  std::string_view separator = "";
  for (const auto& [name, count] : node.devices) {
    StrAppend(out, separator, "{\"name\": ", JsonString(name), ", \"count\": ", count, "}");
    separator = ", ";
  }
  StrAppend(out, "],\n     \"host_memory_bytes\": ", node.host_memory_bytes,
            ", \"host_memory_bandwidth\": ", JsonNumber(node.host_memory_bandwidth));
  AppendLink(out, "     ", "host_link", node.host_link);
  AppendLink(out, "     ", "peer_link", node.peer_link);
  StrAppend(out, "}");
}

}  // namespace

absl::StatusOr<MachineSpec> ParseMachine(std::string_view json, std::string_view file) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::string(json), std::string(file)));
  return ReadMachine(document);
}

absl::StatusOr<MachineSpec> LoadMachine(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path));
  return ReadMachine(document);
}

std::string MachineToJson(const MachineSpec& machine) {
  std::string out = StrCat("{\n  \"format\": \"millrace-machine\",\n  \"version\": \"1.0\",\n",
                           "  \"name\": ", JsonString(machine.name), ",\n  \"devices\": [");
  std::string_view separator = "\n";
  for (const DeviceSpec& device : machine.devices) {
    out += separator;
    AppendDevice(&out, device);
    separator = ",\n";
  }
  out += "\n  ],\n  \"nodes\": [";
  separator = "\n";
  for (const NodeSpec& node : machine.nodes) {
    out += separator;
    AppendNode(&out, node);
    separator = ",\n";
  }
  out += "\n  ]";
  AppendLink(&out, "  ", "network", machine.network);
  StrAppend(&out, ",\n  \"file_bandwidth\": ", JsonNumber(machine.file_bandwidth), "\n}\n");
  return out;
}

}  // namespace millrace
