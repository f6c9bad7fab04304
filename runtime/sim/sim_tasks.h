// From a plan to a FluidProblem: one task for each instruction that runs, of one copy of each kind;
// both ends of a transfer and all members of a collective are one task.
#ifndef MILLRACE_RUNTIME_SIM_SIM_TASKS_H_
#define MILLRACE_RUNTIME_SIM_SIM_TASKS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/task_cost.h"
#include "runtime/sim/alike.h"
#include "runtime/sim/fluid.h"

namespace millrace {

// What a task is for one of the copies that take part in it.
struct SimInstance {
  const Instruction* instruction = nullptr;
  int32_t microbatch = 0;
  int32_t kind = 0;  // into Alike::kinds
  int32_t task = 0;
  int32_t reached = -1;  // the task whose end lets its stream come to it; -1: none
};

struct SimTask {
  int32_t instance = -1;  // the first that it is
  bool launching = false;
  std::optional<Resource> limit;
};

struct SimTasks {
  FluidProblem problem{0};
  std::vector<SimTask> tasks;          // as the problem's
  std::vector<SimInstance> instances;  // by kind, in issue order
};

// Resources of a problem: those of each kind of device, then those of each kind of node.
int32_t DeviceResource(int32_t device_kind, Resource resource);
int32_t NodeResource(const Alike& alike, int32_t node_kind, Resource resource);

absl::StatusOr<SimTasks> MakeTasks(const PlanBundle& plan, const MachineSpec& machine,
                                   const PlanCosts& costs, const Alike& alike, Section section);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SIM_SIM_TASKS_H_
