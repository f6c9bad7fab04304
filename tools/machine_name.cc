#include "tools/machine_name.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "graph/strings.h"

namespace millrace {
namespace {

// Where this build's sources are.
constexpr const char* kMachinesFolder = MILLRACE_MACHINES_FOLDER;

}  // namespace

std::string MachineFileOf(const std::string& name) {
  std::error_code error;
  if (name.empty() || name.find('/') != std::string::npos || std::filesystem::exists(name, error)) {
    return name;
  }
  const std::vector<std::string> known = KnownMachines();
  if (std::find(known.begin(), known.end(), name) == known.end()) return name;
  return StrCat(kMachinesFolder, "/", name, ".json");
}

std::vector<std::string> KnownMachines() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kMachinesFolder, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
