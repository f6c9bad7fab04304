// The memory planner: gives each allocation its place in its buffer, so that allocations in use at
// the same time lie apart and buffers are small.
#ifndef MILLRACE_PASSES_PLAN_MEMORY_H_
#define MILLRACE_PASSES_PLAN_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ids.h"
#include "graph/status.h"
#include "passes/memory/lifetimes.h"

namespace millrace {

// A run of bytes that must be contiguous; one or more slices lie in it.
struct Allocation {
  BufferId buffer;
  int64_t size_bytes = 0;
  Lifetime lifetime;
};

struct MemoryPlacement {
  std::vector<int64_t> offsets;       // per allocation, multiples of kSliceAlignment
  std::vector<int64_t> buffer_bytes;  // per buffer, multiples too
};

// `num_moments`: what lives from 0 to there lives always. InfeasibleError when a buffer's size
// overflows.
absl::StatusOr<MemoryPlacement> PlaceAllocations(std::span<const Allocation> allocations,
                                                 int num_buffers, int32_t num_moments);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_MEMORY_H_
