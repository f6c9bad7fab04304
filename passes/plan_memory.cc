#include "passes/plan_memory.h"

#include "graph/plan.h"

namespace millrace {

absl::StatusOr<MemoryPlacement> PlaceInOrder(std::span<const Allocation> allocations,
                                             int num_buffers) {
  MemoryPlacement placement;
  placement.buffer_bytes.assign(num_buffers, 0);
  for (const Allocation& allocation : allocations) {
    int64_t& end = placement.buffer_bytes[allocation.buffer.index];
    placement.offsets.push_back(end);
    if (__builtin_add_overflow(end, allocation.size_bytes, &end) ||
        __builtin_add_overflow(end, kSliceAlignment - 1, &end)) {
      return InfeasibleError("the values together are larger than any memory");
    }
    end = end / kSliceAlignment * kSliceAlignment;
  }
  return placement;
}

}  // namespace millrace
