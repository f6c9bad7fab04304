#include "tools/plan_devices.h"

#include <algorithm>
#include <set>

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

}  // namespace millrace
