// Graphs at random, small and full of what makes memory hard: values read late and often, reshapes
// of reshapes, pieces, joins, branches, loops, values that are also outputs, params that change.
#ifndef MILLRACE_TESTS_RUN_MEMORY_GRAPH_H_
#define MILLRACE_TESTS_RUN_MEMORY_GRAPH_H_

#include <cstdint>

#include "graph/graph.h"

namespace millrace {

// Typed. Inputs "x0", "x1"; params "p0", "p1". With `params_as_inputs` the same graph without
// state: params are inputs, and the values they are updated to are its last outputs, one a param.
Graph RandomMemoryGraph(uint64_t seed, int num_nodes, bool params_as_inputs);

inline constexpr int kMemoryGraphInputs = 2, kMemoryGraphParams = 2;

}  // namespace millrace

#endif  // MILLRACE_TESTS_RUN_MEMORY_GRAPH_H_
