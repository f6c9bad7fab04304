// What lives always (params, constants) lies side by side at the bottom of its buffer, in order;
// the offset planner packs the rest above. Nothing is lost by it: what lives always adds its size
// to the load of every moment.
#include "passes/plan_memory.h"

#include <utility>

#include "graph/plan.h"
#include "passes/memory/pack.h"

namespace millrace {
namespace {

// Steps of search (about nanoseconds) that the last percents are worth: a little for each plan, and
// more for those that took long to make anyway.
constexpr int64_t kWork = 20'000'000, kWorkPerAllocation = 500;

// False when it overflows.
bool AddAligned(int64_t size_bytes, int64_t& end) {
  if (__builtin_add_overflow(end, size_bytes, &end) ||
      __builtin_add_overflow(end, kSliceAlignment - 1, &end)) {
    return false;
  }
  end = end / kSliceAlignment * kSliceAlignment;
  return true;
}

}  // namespace

absl::StatusOr<MemoryPlacement> PlaceAllocations(std::span<const Allocation> allocations,
                                                 int num_buffers, int32_t num_moments) {
  const absl::Status too_large = InfeasibleError("the values together are larger than any memory");
  MemoryPlacement placement;
  placement.offsets.assign(allocations.size(), 0);
  placement.buffer_bytes.assign(num_buffers, 0);
  std::vector<std::vector<TimedBuffer>> timed(num_buffers);
  std::vector<std::vector<size_t>> owners(num_buffers);
  for (size_t a = 0; a < allocations.size(); ++a) {
    const auto& [buffer, size_bytes, lifetime] = allocations[a];
    int64_t& end = placement.buffer_bytes[buffer.index];
    if (lifetime == Lifetime{0, num_moments}) {
      placement.offsets[a] = end;
      if (!AddAligned(size_bytes, end)) return too_large;
      continue;
    }
    timed[buffer.index].push_back({.lower = lifetime.lower,
                                   .upper = lifetime.upper,
                                   .size_bytes = size_bytes,
                                   .alignment = kSliceAlignment});
    owners[buffer.index].push_back(a);
  }
  for (int b = 0; b < num_buffers; ++b) {
    const int64_t count = std::ssize(timed[b]);
    MILLRACE_ASSIGN_OR_RETURN(const Packing packing,
                              Pack(timed[b], {.max_work = kWork + kWorkPerAllocation * count}));
    int64_t& end = placement.buffer_bytes[b];
    for (size_t i = 0; i < owners[b].size(); ++i) {
      placement.offsets[owners[b][i]] = end + packing.offsets[i];
    }
    if (!AddAligned(packing.height_bytes, end)) return too_large;
  }
  return placement;
}

}  // namespace millrace
