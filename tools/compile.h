// From a file to a plan and the machine it is for, for `plan` and `run`.
#ifndef MILLRACE_TOOLS_COMPILE_H_
#define MILLRACE_TOOLS_COMPILE_H_

#include <string>
#include <vector>

#include "graph/machine.h"
#include "passes/pipeline.h"
#include "tools/command_line.h"
#include "tools/model_file.h"
#include "tools/rewrite_options.h"

namespace millrace {

struct PlanningOptions {
  std::string file;
  std::string machine;              // a file; empty: this machine
  std::string costs;                // a file; empty: the one beside the machine's, if there is one
  int cpu_devices = 0;              // this machine is split into; 0: one
  std::string device;               // empty: "cpu:0"
  int threads = 0;                  // 0: the device's
  std::string schedule;             // "time" or "memory"; empty: "time"
  int streams = 0;                  // at most so many; 0: one
  std::string memory_budget;        // of each device: "2GiB"; empty: the memory it has
  std::vector<std::string> sets;    // "N=8"
  std::string mesh;                 // "data=2"; empty: the graph's own
  std::vector<std::string> shards;  // "w*=tensor:1"
  int zero = 0;                     // stage of ZeRO
  RewriteOptions rewrites;
  bool needs_weights = false;  // no option: weight files are looked at before any work is done
};
void AddPlanningOptions(OptionList& list, PlanningOptions& options);

// The machine to plan for: each of its devices has no more memory than the budget. This machine is
// split into as many cpu devices as asked for, or else the mesh takes.
absl::StatusOr<MachineSpec> LoadPlannedMachine(const PlanningOptions& options,
                                               int64_t mesh_devices = 1);
// How many devices the mesh of --mesh has; 1 without one.
absl::StatusOr<int64_t> DevicesOfMesh(const PlanningOptions& options);

struct PlanForMachine {
  MachineSpec machine;
  PlanBundle plan;
  std::vector<RewriteRecord> records;  // of what was compiled here
};

// Loads, infers and compiles a graph file.
absl::StatusOr<PlanForMachine> CompileFile(const PlanningOptions& options);
// The same for a file, a machine and a target that are there already.
absl::StatusOr<PlanForMachine> CompileFile(const PlanningOptions& options, const ModelFile& file,
                                           MachineSpec machine, const Target& target);

// The same for a graph that is loaded and inferred; `options.file` and `options.sets` are not read.
absl::StatusOr<PlanForMachine> CompileGraph(Graph graph, const PlanningOptions& options);

int64_t NumNodes(const Graph& graph);  // nested graphs included

struct RewrittenGraph {
  Graph graph;
  int64_t nodes_before = 0;  // nested ones included
  std::vector<RewriteRecord> records;
};
// Loads and infers a graph file, and rewrites it for the machine and device that are asked for.
// With a memory budget, to its end: ordered, and with nodes that run again.
absl::StatusOr<RewrittenGraph> RewriteFile(const PlanningOptions& options);

// A plan file as it is, with this machine split into the cpu devices it names; or a graph file
// compiled. UsageError for options that a finished plan could not honour (--set, --device,
// --threads, --schedule, --streams, --cpu-devices, --mesh, --shard, --zero); InfeasibleError for
// one that needs more than the memory budget.
absl::StatusOr<PlanForMachine> LoadOrCompile(const PlanningOptions& options, const ModelFile& file);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_COMPILE_H_
