#include "tools/what_if.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"
#include "tools/quantity.h"

namespace millrace {
namespace {

// Calls `change` on each number of the machine that a key stands for.
using Change = std::function<void(double&)>;

struct Key {
  std::string_view name;
  std::string_view unit;
  std::string_view doc;
  void (*apply)(MachineSpec& machine, const Change& change);
};

template <typename Number>
void ChangeWhole(Number& number, const Change& change) {
  double value = static_cast<double>(number);
  change(value);
  const double most = static_cast<double>(kMaxBytes);
  number = static_cast<Number>(std::llround(std::min(value, most)));
}

template <typename Visit>
void ForEachLink(MachineSpec& machine, Visit visit) {
  for (NodeSpec& node : machine.nodes) {
    visit(node.host_link);
    visit(node.peer_link);
  }
  visit(machine.network);
}

const Key kKeys[] = {
    {"memory", "B", "memory of each device",
     [](MachineSpec& m, const Change& change) {
       for (DeviceSpec& d : m.devices) ChangeWhole(d.memory_bytes, change);
     }},
    {"bandwidth", "B/s", "of each device's memory",
     [](MachineSpec& m, const Change& change) {
       for (DeviceSpec& d : m.devices) change(d.memory_bandwidth);
     }},
    {"compute", "FLOP/s", "peak of each device, in all types",
     [](MachineSpec& m, const Change& change) {
       for (DeviceSpec& d : m.devices) {
         for (auto& [dtype, rate] : d.peak_flops) change(rate);
       }
     }},
    {"launch", "us", "overhead of launching a kernel",
     [](MachineSpec& m, const Change& change) {
       for (DeviceSpec& d : m.devices) change(d.launch_overhead_us);
     }},
    {"host-link", "B/s", "bandwidth between devices and their hosts",
     [](MachineSpec& m, const Change& change) {
       for (NodeSpec& node : m.nodes) change(node.host_link.bandwidth);
     }},
    {"peer-link", "B/s", "bandwidth between devices of a node",
     [](MachineSpec& m, const Change& change) {
       for (NodeSpec& node : m.nodes) change(node.peer_link.bandwidth);
     }},
    {"network", "B/s", "bandwidth between nodes",
     [](MachineSpec& m, const Change& change) { change(m.network.bandwidth); }},
    {"latency", "us", "of all links",
     [](MachineSpec& m, const Change& change) {
       ForEachLink(m, [&](LinkSpec& link) { change(link.latency_us); });
     }},
    {"file", "B/s", "bandwidth of the offload folder",
     [](MachineSpec& m, const Change& change) { change(m.file_bandwidth); }},
};

absl::StatusOr<Change> ParseChange(std::string_view value, std::string_view unit) {
  double factor = 0;
  if (value.ends_with("x") &&
      absl::SimpleAtod(AbslView(value.substr(0, value.size() - 1)), &factor)) {
    if (!(factor > 0) || std::isinf(factor)) {
      return UsageError(StrCat("'", value, "' is no factor; expected one like 2x"));
    }
    return Change([factor](double& number) { number *= factor; });
  }
  absl::StatusOr<double> amount = ParseQuantity(value, unit);
  if (!amount.ok()) return UsageError(StrCat(StdView(amount.status().message()), ", or 2x"));
  return Change([amount = *amount](double& number) { number = amount; });
}

absl::Status Apply(std::string_view text, MachineSpec& machine) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  for (const Key& key : kKeys) {
    if (key.name != name) continue;
    if (equals == std::string_view::npos) {
      return UsageError(StrCat("'", text, "' has no value; expected ", name, "=2x"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const Change change, ParseChange(text.substr(equals + 1), key.unit));
    key.apply(machine, change);
    return absl::OkStatus();
  }
  const std::string hint = DidYouMean(name, names);
  return UsageError(
      StrCat("unknown key '", name, "'; ",
             hint.empty() ? StrCat("there are: ", absl::StrJoin(names, ", ")) : hint));
}

}  // namespace

absl::StatusOr<MachineSpec> VaryMachine(const MachineSpec& machine, std::string_view text) {
  MachineSpec varied = machine;
  for (const absl::string_view part : absl::StrSplit(AbslView(text), ',')) {
    const absl::Status status = Apply(StdView(part), varied);
    if (!status.ok()) {
      return UsageError(StrCat("--what-if ", text, ": ", StdView(status.message())));
    }
  }
  Diagnostics diagnostics;
  VerifyMachine(varied, diagnostics);
  if (!diagnostics.ok()) {
    const Diagnostic& first = diagnostics.shown()[0];
    return UsageError(StrCat("--what-if ", text, ": ", FormatDiagnostic(first)));
  }
  return varied;
}

std::string WhatIfKeys() {
  std::string text;
  for (const Key& key : kKeys) {
    StrAppend(&text, text.empty() ? "" : "\n", "  ", key.name,
              std::string(12 - key.name.size(), ' '), key.doc, " (", key.unit, ")");
  }
  return text;
}

}  // namespace millrace
