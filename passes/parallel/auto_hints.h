// What a search found, as hints on the graph: from there on it is like a mesh given by hand.
#ifndef MILLRACE_PASSES_PARALLEL_AUTO_HINTS_H_
#define MILLRACE_PASSES_PARALLEL_AUTO_HINTS_H_

#include "graph/graph.h"
#include "passes/parallel/auto_mesh.h"

namespace millrace {

// Sets the mesh of the fastest plan, cuts inputs by samples over its data axis and params over its
// tensor axis as their cells have them; propagation finds the rest. The plan is of one stage and
// one microbatch. Shardings that were asked for already stay.
void ApplySearch(const MeshSearch& search, Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_AUTO_HINTS_H_
