// What lives always (params, constants) lies side by side at the bottom of its buffer, in order;
// the offset planner packs the rest above. Nothing is lost by it: what lives always adds its size
// to the load of every moment.
#include "passes/plan_memory.h"

#include <utility>

#include "graph/plan.h"
#include "passes/memory/access_log.h"
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

// Shapes and axes that only views would have read.
void DropUnreadConstants(std::span<const Graph* const> graphs, Program& program,
                         std::span<const Allocation> allocations,
                         std::span<const SlicePlace> places) {
  const AccessLog log = LogAccesses(program, graphs);
  std::vector<bool> is_read(allocations.size(), false);
  for (int32_t m = 0; m < log.num_moments(); ++m) {
    if (log.moments[m].instruction == nullptr) continue;
    for (const Access& access : log.AccessesOf(m)) {
      is_read[places[access.slice.index].allocation] = true;
    }
  }
  for (const Binding& output : program.outputs) {
    is_read[places[output.slice.index].allocation] = true;
  }
  std::erase_if(program.loads, [&](const Binding& load) {
    return graphs[0]->value(load.value).kind == ValueKind::kConstant &&
           !is_read[places[load.slice.index].allocation];
  });
}

}  // namespace

absl::Status PlanMemory(std::span<const Graph* const> graphs, Program& program,
                        std::vector<Allocation> allocations, std::vector<SlicePlace> places) {
  Coalesce(graphs, program, allocations, places);
  DropUnreadConstants(graphs, program, allocations, places);
  DropUnusedSlices(program, places);
  const AccessLog log = LogAccesses(program, graphs);
  std::vector<int32_t> owners;
  for (const SlicePlace& place : places) owners.push_back(place.allocation);
  const std::vector<Lifetime> lifetimes =
      LifetimesOf(program, log, owners, static_cast<int32_t>(allocations.size()));
  MILLRACE_ASSIGN_OR_RETURN(
      const MemoryPlacement placement,
      PlaceAllocations(allocations, lifetimes, static_cast<int>(program.buffers.size()),
                       log.num_moments()));
  for (size_t s = 0; s < program.slices.size(); ++s) {
    const auto& [allocation, offset_bytes] = places[s];
    program.slices[s].offset_bytes = placement.offsets[allocation] + offset_bytes;
  }
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    program.buffers[b].size_bytes = placement.buffer_bytes[b];
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryPlacement> PlaceAllocations(std::span<const Allocation> allocations,
                                                 std::span<const Lifetime> lifetimes,
                                                 int num_buffers, int32_t num_moments) {
  const absl::Status too_large = InfeasibleError("the values together are larger than any memory");
  MemoryPlacement placement;
  placement.offsets.assign(allocations.size(), 0);
  placement.buffer_bytes.assign(num_buffers, 0);
  std::vector<std::vector<TimedBuffer>> timed(num_buffers);
  std::vector<std::vector<size_t>> owners(num_buffers);
  for (size_t a = 0; a < allocations.size(); ++a) {
    const auto& [buffer, size_bytes] = allocations[a];
    const Lifetime& lifetime = lifetimes[a];
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
