// The machine this process runs on, as a MachineSpec.
#ifndef MILLRACE_RUNTIME_CPU_HOST_MACHINE_H_
#define MILLRACE_RUNTIME_CPU_HOST_MACHINE_H_

#include <cstdint>
#include <string>

#include "graph/machine.h"

namespace millrace {

// One node with `cpu_devices` cpu devices (at least 1) that share memory and cores evenly;
// `threads_per_device` 0: its share of the cores, at least 1. Memory, cores and instruction set are
// what the system says (within the limits of this process's control group); rates are low estimates
// for any machine of this kind, good for comparing plans, not for predicting times: `millrace
// profile` measures them.
MachineSpec DetectHostMachine(int cpu_devices, int threads_per_device);

// Bytes of memory this process may use: physical memory or a control group's limit, if lower.
int64_t HostMemoryBytes();
// Cores this process may use: its affinity mask, or a control group's quota (rounded up), if lower.
int HostCores();

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_CPU_HOST_MACHINE_H_
