#include "tools/plan_devices.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/machine.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"

namespace millrace {

std::vector<std::string> DeviceNamesOf(const PlanBundle& plan, const Program& program,
                                       int64_t limit) {
  std::vector<std::string> names;
  const int64_t devices = std::min(plan.mesh.num_devices(), limit);
  for (int64_t i = 0; i < devices; ++i) {
    const std::vector<int64_t> coordinates = CoordinatesOf(plan.mesh, i);
    const int64_t index = Evaluate(program.device_index, {.coordinates = coordinates});
    names.push_back(StrCat(program.device_kind, ":", index));
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> AllDeviceNames(const PlanBundle& plan) {
  constexpr int64_t kMaxEndpoints = 1024;
  const int64_t endpoints = plan.mesh.num_devices();
  if (endpoints > kMaxEndpoints) {
    return UsageError(StrCat("the plan's mesh ", ToString(plan.mesh), " has ", endpoints,
                             " devices; one process drives at most ", kMaxEndpoints));
  }
  std::set<std::string> names;
  for (const Program& program : plan.programs) {
    for (std::string& name : DeviceNamesOf(plan, program, endpoints)) {
      names.insert(std::move(name));
    }
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::StatusOr<std::vector<std::string>> DeviceNamesOfRank(const PlanBundle& plan, int rank,
                                                           int ranks) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, AllDeviceNames(plan));
  std::map<std::pair<std::string, int64_t>, std::string> ordered;
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(const auto device, ParseDeviceName(name));
    ordered[device] = name;
  }
  const auto devices = static_cast<int>(ordered.size());
  if (devices % ranks != 0) {
    return UsageError(StrCat("plan '", plan.name, "' uses ", devices,
                             devices == 1 ? " device" : " devices", ", which ", ranks,
                             " processes cannot share evenly; a mesh (--mesh) spreads a graph over "
                             "more devices"));
  }
  const int share = devices / ranks;
  std::vector<std::string> own;
  int index = 0;
  for (const auto& [device, name] : ordered) {
    if (index++ / share == rank) own.push_back(name);
  }
  return own;
}

}  // namespace millrace
