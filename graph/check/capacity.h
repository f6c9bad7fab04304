// Device memory: what the programs of each device take, against what the machine has.
#ifndef MILLRACE_GRAPH_CHECK_CAPACITY_H_
#define MILLRACE_GRAPH_CHECK_CAPACITY_H_

#include "graph/check/error_list.h"
#include "graph/machine.h"
#include "graph/plan.h"

namespace millrace {

// The plan's structure is sound. Adds kCapacity errors; one per device that is overcommitted, and
// one per program that asks for a device the machine lacks.
void CheckCapacity(const PlanBundle& plan, const MachineSpec& machine, ErrorList& errors);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_CAPACITY_H_
