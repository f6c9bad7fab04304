// A transformer-like tower of tiny ops: the shape of a deep model with nothing to compute, to
// measure what the engine itself costs per node.
#ifndef MILLRACE_BENCH_MODELS_TOWER_H_
#define MILLRACE_BENCH_MODELS_TOWER_H_

#include <cstdint>

#include "graph/graph.h"

namespace millrace {

// `num_nodes` nodes (rounded down to whole blocks of ten) over f32[width]: each block normalizes by
// hand, mixes three branches and adds its input back. Inferred; weights are seeded.
Graph TowerGraph(int64_t num_nodes, int64_t width = 8);

// A chain of `num_nodes` Relus over f32[width].
Graph ChainGraph(int64_t num_nodes, int64_t width = 8);

}  // namespace millrace

#endif  // MILLRACE_BENCH_MODELS_TOWER_H_
