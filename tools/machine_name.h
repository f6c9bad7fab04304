// Machines by name: those of tools/machines.
#ifndef MILLRACE_TOOLS_MACHINE_NAME_H_
#define MILLRACE_TOOLS_MACHINE_NAME_H_

#include <string>
#include <vector>

namespace millrace {

// The file of a machine that is named without folder and extension, such as "dgx-h100-pod", when
// there is none of that name here; otherwise `name` itself.
std::string MachineFileOf(const std::string& name);

// In order.
std::vector<std::string> KnownMachines();

}  // namespace millrace

#endif  // MILLRACE_TOOLS_MACHINE_NAME_H_
