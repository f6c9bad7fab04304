// The cost table file, "millrace-costs" 1.0 (graph/schema/costs.schema.json).
#include "graph/cost_table.h"

#include <limits>
#include <optional>

#include "graph/json_document.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kMaxKeyBytes = 1 << 20;
constexpr int kMaxThreads = 1 << 20;

using Member = std::optional<JsonReader>;

void ReadText(const Member& member, size_t max_bytes, std::string* to) {
  if (!member.has_value()) return;
  if (auto text = member->String(max_bytes, /*allow_empty=*/true)) *to = *std::move(text);
}

// A finite number that is at least `min`, or above it when `exclusive`.
void ReadAmount(const Member& member, double min, bool exclusive, double* to) {
  if (!member.has_value()) return;
  const std::optional<double> value = member->Number();
  if (!value.has_value()) return;
  const bool low = exclusive ? !(*value > min) : !(*value >= min);
  if (low || *value > std::numeric_limits<double>::max()) {
    member->Error("out of range", StrCat(exclusive ? "more than " : "at least ", min),
                  member->Describe());
    return;
  }
  *to = *value;
}

void ReadThreads(const Member& member, int min, int* to) {
  if (!member.has_value()) return;
  if (const auto threads = member->Int(min, kMaxThreads)) *to = static_cast<int>(*threads);
}

KernelRates ReadRates(const JsonReader& reader) {
  KernelRates rates;
  reader.OnlyKeys({"family", "class", "threads", "compute", "memory", "overhead_us", "samples",
                   "median_error"});
  ReadText(reader.Optional("family"), 1024, &rates.family);
  ReadText(reader.Optional("class"), 1024, &rates.op_class);
  ReadThreads(reader.Optional("threads"), 0, &rates.threads);
  ReadAmount(reader.Optional("compute"), 0, /*exclusive=*/true, &rates.compute);
  ReadAmount(reader.Optional("memory"), 0, /*exclusive=*/true, &rates.memory);
  ReadAmount(reader.Optional("overhead_us"), 0, /*exclusive=*/false, &rates.overhead_us);
  if (const Member samples = reader.Optional("samples")) {
    rates.samples = samples->Int(0, std::numeric_limits<int64_t>::max()).value_or(0);
  }
  ReadAmount(reader.Optional("median_error"), 0, /*exclusive=*/false, &rates.median_error);
  return rates;
}

void ReadKernel(const JsonReader& reader, DeviceCosts* costs) {
  enum { kQuery, kVariant, kThreads, kTime, kFlops, kBytes, kNumKeys };
  static constexpr std::string_view kKeys[kNumKeys] = {"query",   "variant", "threads",
                                                       "time_us", "flops",   "bytes"};
  Member m[kNumKeys];
  if (!reader.Members(kKeys, m)) return;
  for (const int key : {kQuery, kVariant, kThreads, kTime}) {
    if (!m[key].has_value()) reader.Error(StrCat("key \"", kKeys[key], "\" is missing"));
  }
  KernelKey key;
  MeasuredKernel kernel;
  ReadText(m[kQuery], kMaxKeyBytes, &key.query);
  ReadText(m[kVariant], 1024, &key.variant);
  ReadThreads(m[kThreads], 1, &key.threads);
  ReadAmount(m[kTime], 0, /*exclusive=*/true, &kernel.time_us);
  ReadAmount(m[kFlops], 0, /*exclusive=*/false, &kernel.flops);
  ReadAmount(m[kBytes], 0, /*exclusive=*/false, &kernel.bytes);
  if (!costs->kernels.emplace(std::move(key), kernel).second) {
    reader.Error("this kernel was measured before, for the same query and threads");
  }
}

void ReadDevice(const JsonReader& reader, CostTable* table) {
  reader.OnlyKeys({"name", "rates", "kernels"});
  std::string name;
  ReadText(reader.Required("name"), 1024, &name);
  const auto [device, added] = table->devices.try_emplace(name);
  if (!added) return reader.Error(StrCat("device '", name, "' is there twice"));
  if (const Member rates = reader.Optional("rates")) {
    rates->ForEachElement(
        [&](const JsonReader& r) { device->second.rates.push_back(ReadRates(r)); });
  }
  if (const Member kernels = reader.Optional("kernels")) {
    kernels->ForEachElement([&](const JsonReader& k) { ReadKernel(k, &device->second); });
  }
}

absl::StatusOr<CostTable> ReadTable(const JsonDocument& document) {
  CostTable table;
  Diagnostics diagnostics;
  const JsonReader root(document, diagnostics);
  if (!root.HasFormat("millrace-costs")) return diagnostics.ToStatus();
  root.OnlyKeys({"format", "version", "machine", "devices"});
  ReadText(root.Optional("machine"), 1024, &table.machine);
  if (const Member devices = root.Required("devices")) {
    devices->ForEachElement([&](const JsonReader& device) { ReadDevice(device, &table); });
  }
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return table;
}

// --- Writing ------------------------------------------------------------------------------------

void AppendRates(std::string* out, const KernelRates& rates) {
  StrAppend(out, "{\"family\": ", JsonString(rates.family),
            ", \"class\": ", JsonString(rates.op_class), ", \"threads\": ", rates.threads,
            ", \"compute\": ", JsonNumber(rates.compute),
            ", \"memory\": ", JsonNumber(rates.memory),
            ", \"overhead_us\": ", JsonNumber(rates.overhead_us), ", \"samples\": ", rates.samples,
            ", \"median_error\": ", JsonNumber(rates.median_error), "}");
}

void AppendKernel(std::string* out, const KernelKey& key, const MeasuredKernel& kernel) {
  StrAppend(out, "{\"query\": ", JsonString(key.query), ", \"variant\": ", JsonString(key.variant),
            ", \"threads\": ", key.threads, ", \"time_us\": ", JsonNumber(kernel.time_us),
            ", \"flops\": ", JsonNumber(kernel.flops), ", \"bytes\": ", JsonNumber(kernel.bytes),
            "}");
}

void AppendDevice(std::string* out, std::string_view name, const DeviceCosts& costs) {
  constexpr std::string_view kFirst = "\n      ", kNext = ",\n      ";
  StrAppend(out, "    {\"name\": ", JsonString(name), ",\n     \"rates\": [");
  std::string_view separator = kFirst;
  for (const KernelRates& rates : costs.rates) {
    out->append(separator);
    AppendRates(out, rates);
    separator = kNext;
  }
  out->append("],\n     \"kernels\": [");
  separator = kFirst;
  for (const auto& [key, kernel] : costs.kernels) {
    out->append(separator);
    AppendKernel(out, key, kernel);
    separator = kNext;
  }
  out->append("]}");
}

}  // namespace

const DeviceCosts* CostTable::FindDevice(std::string_view device) const {
  const auto found = devices.find(device);
  return found == devices.end() ? nullptr : &found->second;
}

std::string_view VariantFamily(std::string_view variant) {
  return variant.substr(0, variant.find(':'));
}

absl::StatusOr<CostTable> ParseCostTable(std::string_view json, std::string_view file) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::string(json), std::string(file)));
  return ReadTable(document);
}

absl::StatusOr<CostTable> LoadCostTable(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path));
  return ReadTable(document);
}

std::string CostTableToJson(const CostTable& table) {
  std::string out = StrCat("{\n  \"format\": \"millrace-costs\",\n  \"version\": \"1.0\",\n",
                           "  \"machine\": ", JsonString(table.machine), ",\n  \"devices\": [");
  std::string_view separator = "\n";
  for (const auto& [name, costs] : table.devices) {
    out.append(separator);
    AppendDevice(&out, name, costs);
    separator = ",\n";
  }
  out.append(table.devices.empty() ? "]\n}\n" : "\n  ]\n}\n");
  return out;
}

}  // namespace millrace
