// Variations of a machine: "bandwidth=2x", "memory=40GiB,launch=1us".
#ifndef MILLRACE_TOOLS_WHAT_IF_H_
#define MILLRACE_TOOLS_WHAT_IF_H_

#include <string>
#include <string_view>

#include "graph/machine.h"
#include "graph/status.h"

namespace millrace {

// `machine` with the changes in `text`: KEY=VALUE, several separated by commas. A value is a factor
// ("2x", "0.5x") or an amount with its unit, which then holds for all devices, nodes or links.
// UsageError naming what is wrong and the nearest key. The devices stay where they are in the list.
absl::StatusOr<MachineSpec> VaryMachine(const MachineSpec& machine, std::string_view text);

// A line for each key, for the help.
std::string WhatIfKeys();

}  // namespace millrace

#endif  // MILLRACE_TOOLS_WHAT_IF_H_
