// A model as automatic partition sees it: a chain of cells joined by one activation each, cells of
// one class being the same computation with other weights, and every value's batch dim.
#ifndef MILLRACE_PASSES_PARALLEL_AUTO_CELLS_H_
#define MILLRACE_PASSES_PARALLEL_AUTO_CELLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

struct PartitionCell {
  std::vector<NodeId> nodes;  // in order; nodes that depend on no param are in no cell
  ValueId input, output;      // activations at its ends; not valid at the ends of the chain
  int32_t cell_class = 0;
};

struct PartitionModel {
  std::vector<PartitionCell> cells;
  std::vector<int32_t> class_example;  // by class: the first cell of it
  std::vector<bool> learned;           // by value: it depends on a param
  std::vector<int32_t> batch_dim;      // by value; -1: the same for all samples
  int64_t batch = 1;                   // samples; 1 where they cannot be told apart
  std::string whole_batch_because;     // why they cannot; empty: they can
};

// The dim of samples is dim 0 of every input, all of one size; it is followed through the nodes by
// their sharding rules. Where a node can be cut by no rule so, all samples together count as one:
// such a graph has no data axis and no microbatches. BadInputError when no node reads a param.
absl::StatusOr<PartitionModel> FindCells(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_AUTO_CELLS_H_
