// The memory planner: where everything lies. Makes one allocation of several where they need not
// lie apart (passes/memory/coalesce.h), and gives each its place in its buffer, so that allocations
// in use at the same time lie apart and buffers are small.
#ifndef MILLRACE_PASSES_PLAN_MEMORY_H_
#define MILLRACE_PASSES_PLAN_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"
#include "graph/status.h"
#include "passes/memory/coalesce.h"
#include "passes/memory/lifetimes.h"

namespace millrace {

// Fills in offsets of slices and sizes of buffers of a program that has everything else. Takes out
// instructions that need not run, constants that nobody reads then, and slices that nobody uses.
// `graphs` are the bundle's (FlattenGraphs); `places` say by slice which allocation it lies in,
// now. InfeasibleError when a buffer's size overflows.
absl::Status PlanMemory(std::span<const Graph* const> graphs, Program& program,
                        std::vector<Allocation> allocations, std::vector<SlicePlace> places);

// --- Its last part ------------------------------------------------------------------------------
struct MemoryPlacement {
  std::vector<int64_t> offsets;       // per allocation, multiples of kSliceAlignment
  std::vector<int64_t> buffer_bytes;  // per buffer, multiples too
};

// `lifetimes` are by allocation; what lives from moment 0 to `num_moments` lives always.
absl::StatusOr<MemoryPlacement> PlaceAllocations(std::span<const Allocation> allocations,
                                                 std::span<const Lifetime> lifetimes,
                                                 int num_buffers, int32_t num_moments);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_MEMORY_H_
