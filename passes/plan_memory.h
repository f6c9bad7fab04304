// The memory planner: gives each allocation its place in its buffer. This one is the baseline that
// others are measured against: in order, side by side, nothing reused.
#ifndef MILLRACE_PASSES_PLAN_MEMORY_H_
#define MILLRACE_PASSES_PLAN_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ids.h"
#include "graph/status.h"

namespace millrace {

// A run of bytes that must be contiguous; one or more slices lie in it.
struct Allocation {
  BufferId buffer;
  int64_t size_bytes = 0;
};

struct MemoryPlacement {
  std::vector<int64_t> offsets;       // per allocation, multiples of kSliceAlignment
  std::vector<int64_t> buffer_bytes;  // per buffer
};

// InfeasibleError when a buffer's size overflows.
absl::StatusOr<MemoryPlacement> PlaceInOrder(std::span<const Allocation> allocations,
                                             int num_buffers);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PLAN_MEMORY_H_
