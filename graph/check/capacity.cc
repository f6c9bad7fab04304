#include "graph/check/capacity.h"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/strings.h"

namespace millrace {
namespace {

struct DeviceUse {
  int64_t bytes = 0;     // saturates
  std::string programs;  // "'a' 1024 bytes, 'b' at data=1 ..."
  int64_t num_programs = 0;
};

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// The next coordinate in row-major order; false after the last.
bool Next(std::vector<int64_t>& coordinate, const Mesh& mesh) {
  for (size_t i = coordinate.size(); i-- > 0;) {
    if (++coordinate[i] < mesh.axes[i].size) return true;
    coordinate[i] = 0;
  }
  return false;
}

}  // namespace

void CheckCapacity(const PlanBundle& plan, const MachineSpec& machine, ErrorList& errors) {
  std::map<std::pair<std::string, int64_t>, DeviceUse> uses;
  for (const Program& program : plan.programs) {
    const int64_t bytes = DeviceBytes(program);
    const int64_t count = CountDevices(machine, program.device_kind);
    std::vector<int64_t> at(plan.mesh.axes.size(), 0);
    do {
      const int64_t index = Evaluate(program.device_index, {.coordinates = at});
      if (index < 0 || index >= count) {
        errors.Add(PlanRule::kCapacity,
                   StrCat("capacity: program '", program.name, "' runs on ", program.device_kind,
                          ":", index, "; machine '", machine.name, "' has ", count, " ",
                          program.device_kind, " devices"));
        break;
      }
      DeviceUse& use = uses[{program.device_kind, index}];
      use.bytes = SaturatingAdd(use.bytes, bytes);
      if (++use.num_programs <= 8) {
        StrAppend(&use.programs, use.programs.empty() ? "" : " + ", bytes, " of '", program.name,
                  "'");
      }
    } while (Next(at, plan.mesh));
  }
  for (const auto& [device, use] : uses) {
    const absl::StatusOr<DeviceLocation> found = FindDevice(machine, device.first, device.second);
    if (!found.ok() || use.bytes <= found->spec->memory_bytes) continue;
    errors.Add(
        PlanRule::kCapacity,
        StrCat("capacity: device ", device.first, ":", device.second, " of machine '", machine.name,
               "' has ", found->spec->memory_bytes, " bytes, the plan's buffers take ", use.bytes,
               " (", use.programs, use.num_programs > 8 ? " + more" : "", ")"));
  }
}

}  // namespace millrace
