// Machines and plans with round numbers, so that times can be worked out by hand.
#ifndef MILLRACE_TESTS_SIM_SIM_PLAN_H_
#define MILLRACE_TESTS_SIM_SIM_PLAN_H_

#include <map>
#include <string>
#include <vector>

#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/task_cost.h"
#include "runtime/sim/simulate.h"

namespace millrace {

// `nodes` nodes of `devices` devices of `kind` each, one copy engine a device. Bytes a microsecond:
// memory 1e6, host link 1e4, peer link 1e5, network 1e4, file 1e3; no latencies.
MachineSpec Cluster(int64_t nodes, int64_t devices, const std::string& kind = "cuda",
                    double launch_overhead_us = 0);

// Takes `time_us` and nothing else.
TaskCost Takes(double time_us);
TaskCost Takes(double time_us, Resource resource, float use);

// Costs of what runs nodes, by node name; Copies as the machine has them.
using NodeCosts = std::map<std::string, TaskCost>;
PlanCosts CostsOf(const PlanBundle& plan, const MachineSpec& machine, const NodeCosts& nodes);

// Simulates, both merged and copy by copy, which must take the same time.
SimResult SimulateOrDie(const PlanBundle& plan, const MachineSpec& machine, const NodeCosts& nodes);

// "launch a 0 10, wait 10 12": what a stream does and when, events of no length left out.
std::string Timeline(const PlanBundle& plan, const SimResult& result, int32_t copies,
                     const std::string& stream);

// A bundle of programs made for a graph given as text.
PlanBundle BundleOf(Graph graph, std::vector<Program> programs, int32_t microbatches = 1,
                    const std::string& mesh = "");
Graph GraphFromText(const std::string& text);

}  // namespace millrace

#endif  // MILLRACE_TESTS_SIM_SIM_PLAN_H_
