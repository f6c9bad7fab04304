// Graphs run for real over cpu devices of this process.
#ifndef MILLRACE_TESTS_PARALLEL_RUN_SHARDED_H_
#define MILLRACE_TESTS_PARALLEL_RUN_SHARDED_H_

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "tools/compile.h"

namespace millrace {

struct ShardedRun {
  std::map<std::string, Tensor> outputs;               // of the last step
  std::map<std::string, Tensor> params;                // after it
  std::map<std::string, std::vector<Tensor>> by_step;  // outputs of all steps
};

// `steps` steps of the graph as `millrace run` would run it with these options: compiled, checked
// by the plan checker, and executed with arenas full of NaN to begin with. `inputs` by name.
absl::StatusOr<ShardedRun> RunSharded(const Graph& graph,
                                      const std::map<std::string, Tensor>& inputs,
                                      const PlanningOptions& options = {}, int steps = 1);

// Random inputs for a graph, by seed; integers are in [0, 2).
std::map<std::string, Tensor> RandomInputs(const Graph& graph, uint64_t seed);

}  // namespace millrace

#endif  // MILLRACE_TESTS_PARALLEL_RUN_SHARDED_H_
