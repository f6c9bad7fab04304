// The devices that a plan runs on, by name.
#ifndef MILLRACE_TOOLS_PLAN_DEVICES_H_
#define MILLRACE_TOOLS_PLAN_DEVICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/plan.h"
#include "graph/status.h"

namespace millrace {

// Those of one program, "cpu:0", one per mesh coordinate in linear order; the first `limit` of
// them.
std::vector<std::string> DeviceNamesOf(const PlanBundle& plan, const Program& program,
                                       int64_t limit);

// Those of all programs, sorted, each once. UsageError beyond what one process could drive.
absl::StatusOr<std::vector<std::string>> AllDeviceNames(const PlanBundle& plan);

// Those that process `rank` of `ranks` drives: of all, by kind and number, an equal share each, the
// first to rank 0. UsageError when they cannot be shared so.
absl::StatusOr<std::vector<std::string>> DeviceNamesOfRank(const PlanBundle& plan, int rank,
                                                           int ranks);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PLAN_DEVICES_H_
