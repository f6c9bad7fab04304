// Compiles a graph, has the plan checked, and runs it.
#ifndef MILLRACE_TESTS_RUN_RUN_GRAPH_H_
#define MILLRACE_TESTS_RUN_RUN_GRAPH_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "passes/schedule/schedule_graph.h"
#include "runtime/trace.h"

namespace millrace {

using NamedTensors = std::map<std::string, Tensor>;

// Parsed and inferred; failures are errors.
absl::StatusOr<Graph> TypedGraph(std::string_view text);

struct RunOptions {
  std::string device_kind = "cpu";  // "cuda": on the simulated driver, where it is built
  bool own_kernels = false;         // cuda: those of ops/cuda, by the SIMT shim; else references
  uint64_t seed = 0;                // of the order of the simulated GPU's work
  ScheduleGoal schedule = ScheduleGoal::kTime;
  std::vector<std::string>* calls = nullptr;  // own kernels: of cuBLASLt, then of cuDNN
  std::vector<NodeTime>* times = nullptr;     // of all steps, by node, where wanted
};

// The graph's outputs, in order, for each of the steps.
absl::StatusOr<std::vector<std::vector<Tensor>>> RunGraph(const Graph& graph,
                                                          const std::vector<NamedTensors>& steps,
                                                          const RunOptions& options = {});

// That device kinds can be run: "cpu", and "cuda" where it is built.
std::vector<std::string> RunnableKinds();

// Every run, on each kind of device and with each schedule, gives bit for bit what the graph means.
void ExpectRunsAsItMeans(std::string_view text, const std::vector<NamedTensors>& steps);
// The same for one step, and the outputs on the CPU; none where that fails.
std::vector<Tensor> OutputsOf(std::string_view text, const NamedTensors& inputs);

}  // namespace millrace

#endif  // MILLRACE_TESTS_RUN_RUN_GRAPH_H_
