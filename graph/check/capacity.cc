#include "graph/check/capacity.h"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int64_t kMaxPeakEvaluations = int64_t{1} << 24;
constexpr int64_t kMaxNamed = 8;  // programs, in a message

struct DeviceUse {
  int64_t bytes = 0;     // saturates
  std::string programs;  // "1024 of 'a' + 512 of 'b'"
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
  int64_t evaluations = 0;
  for (const Program& program : plan.programs) {
    const int64_t count = CountDevices(machine, program.device_kind);
    std::vector<int64_t> at(plan.mesh.axes.size(), 0);
    const bool constant = program.device_index.IsConstant();
    const int64_t copies = constant ? plan.mesh.num_devices() : 1;  // of the program on a device
    int64_t bytes = DeviceBytes(program);
    if (__builtin_mul_overflow(bytes, copies, &bytes)) bytes = std::numeric_limits<int64_t>::max();
    do {
      const int64_t index = Evaluate(program.device_index, {.coordinates = at});
      if (index < 0 || index >= count) {
        errors.Add(PlanRule::kCapacity,
                   StrCat("capacity: program '", program.name, "' runs on ", program.device_kind,
                          ":", index, "; machine '", machine.name, "' has ", count, " ",
                          program.device_kind, " devices"));
        break;
      }
      if (++evaluations > kMaxPeakEvaluations) {
        errors.Add(PlanRule::kCapacity, "capacity: too many programs and devices to add up");
        return;
      }
      DeviceUse& use = uses[{program.device_kind, index}];
      use.bytes = SaturatingAdd(use.bytes, bytes);
      if (++use.num_programs <= kMaxNamed) {
        StrAppend(&use.programs, use.programs.empty() ? "" : " + ", bytes, " of '", program.name,
                  "'");
      }
    } while (!constant && Next(at, plan.mesh));
  }
  for (const auto& [device, use] : uses) {
    const absl::StatusOr<DeviceLocation> found = FindDevice(machine, device.first, device.second);
    if (!found.ok() || use.bytes <= found->spec->memory_bytes) continue;
    errors.Add(
        PlanRule::kCapacity,
        StrCat("capacity: device ", device.first, ":", device.second, " of machine '", machine.name,
               "' has ", found->spec->memory_bytes, " bytes, the plan's buffers take ", use.bytes,
               " (", use.programs, use.num_programs > kMaxNamed ? " + more" : "", ")"));
  }
}

}  // namespace millrace
