// The simulator: plays a section of a plan on a machine that need not exist, on a virtual clock.
//
// Costs come as data: what each instruction takes alone (graph/task_cost.h, made by the cost
// model); what transfers and collectives take follows from the machine (graph/link_cost.h). Streams
// run in order, Waits wait for their Records, the two ends of a transfer and the members of a
// collective meet; all tasks share the resources of their devices and nodes (fluid.h). On an
// asynchronous device (any but "cpu") one host thread issues for all streams, each instruction
// taking the device's launch overhead; on a synchronous one each stream issues for itself.
//
// Copies of programs that behave alike are played once (alike.h), so the cost does not depend on
// how many devices there are. What is not modelled: the time to signal and wait for events; caches,
// beyond what measured costs have seen; kernels that slow down as the chip warms up.
#ifndef MILLRACE_RUNTIME_SIM_SIMULATE_H_
#define MILLRACE_RUNTIME_SIM_SIMULATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/machine.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "graph/task_cost.h"
#include "runtime/communicator.h"
#include "runtime/trace.h"

namespace millrace {

struct SimSpan {
  const Instruction* instruction = nullptr;  // of the plan
  int32_t microbatch = 0;
  double reached_us = 0;  // its stream came to it
  double begin_us = 0;    // it began, having waited for others
  double end_us = 0;
};

// One stream of the copies of a program that stand for all those alike.
struct SimStream {
  int32_t copies = 0;  // index into SimResult::copies
  StreamId stream;
  std::vector<SimSpan> spans;
};

// Copies of a program that behave alike.
struct SimCopies {
  Endpoint first;      // the one played
  std::string device;  // its device: "cuda:0"
  int64_t count = 1;   // so many are alike
  // Time in which one of its streams runs a kernel (Launch, Call, HostCall).
  double kernel_us = 0;
};

// A resource of devices or nodes alike.
struct SimResource {
  Resource resource = Resource::kCompute;
  std::string owner;  // "cuda:0" or "node 0": the first of those alike
  int64_t count = 1;
  double busy = 0;  // fraction of the section's time, at full rate
};

// A piece of the critical path: the chain of instructions, each beginning when the one before ends,
// that leads up to the last end. Without gaps.
struct SimPathPiece {
  int32_t copies = 0;
  const Instruction* instruction = nullptr;
  int32_t microbatch = 0;
  double begin_us = 0, end_us = 0;
  bool launching = false;         // the host issuing the instruction
  std::optional<Resource> limit;  // what would have to be faster; nullopt: fixed costs
};

struct SimResult {
  double time_us = 0;
  std::vector<SimCopies> copies;
  std::vector<SimStream> streams;      // that have instructions, by copies, then by stream
  std::vector<SimResource> resources;  // that are used, busiest first
  std::vector<SimPathPiece> critical_path;
  int64_t tasks = 0;  // played
};

struct SimOptions {
  Section section = Section::kStep;
  bool every_copy = false;  // play all copies of programs, alike or not
};

// `plan` passed the checker; `costs` are of this plan on this machine. The plan outlives the
// result. UsageError for a device that the machine lacks and for plans too large to play.
absl::StatusOr<SimResult> Simulate(const PlanBundle& plan, const MachineSpec& machine,
                                   const PlanCosts& costs, const SimOptions& options = {});

// The played streams as lanes of a trace (runtime/trace.h writes it down), time 0 at 0 ns.
void AddToTrace(const SimResult& result, const PlanBundle& plan, Tracer& tracer);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_SIM_SIMULATE_H_
