// Runs a graph on cpu:0 as `millrace run` does: compile, check, session.
#ifndef MILLRACE_TOOLS_RUN_GRAPH_H_
#define MILLRACE_TOOLS_RUN_GRAPH_H_

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// `inputs` by name, one for each input of the graph; the outputs, in the graph's order.
absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph,
                                             const std::map<std::string, Tensor>& inputs);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_RUN_GRAPH_H_
