// LiveSections: a packing problem with time reduced to what matters. Two buffers meet exactly when
// they live at the same time, and all moments between two departures are alike: so time is cut into
// *sections*, one per largest set of buffers that live together, numbered in order of time.
#ifndef MILLRACE_PASSES_MEMORY_LIVE_SECTIONS_H_
#define MILLRACE_PASSES_MEMORY_LIVE_SECTIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/status.h"
#include "passes/memory/pack.h"

namespace millrace {

// A buffer that takes part: it is not empty.
struct PackItem {
  int32_t first = 0, last = 0;  // sections, both included
  int64_t size = 0;             // in units, rounded up
  int64_t alignment = 1;        // in units
  int32_t buffer = 0;           // its index among the buffers
};

struct LiveSections {
  std::vector<PackItem> items;    // by ascending first section, then descending last
  std::vector<int64_t> load;      // by section: units that live there
  std::vector<int64_t> duration;  // by section: how much time it stands for
  int64_t unit_bytes = 1;         // all sizes and offsets are multiples
  bool one_alignment = true;      // and nothing else is asked of offsets
  int64_t max_load = 0;
  // No packing is lower. The load in units exceeds it where the topmost buffer of a section is
  // shorter than the units it takes.
  int64_t lower_bound_bytes = 0;
  int64_t greatest_shortfall_bytes = 0;  // by which a buffer is shorter than its units
  int64_t peak_time = 0;

  int32_t num_sections() const { return static_cast<int32_t>(load.size()); }
  int32_t num_items() const { return static_cast<int32_t>(items.size()); }
  int64_t total_span() const;  // sections of all items together
};

// Offsets in units, by item.
using ItemOffsets = std::vector<int64_t>;

absl::StatusOr<LiveSections> CutIntoSections(std::span<const TimedBuffer> buffers);

// In units.
int64_t HeightOf(const LiveSections& sections, const ItemOffsets& offsets);

inline int64_t AlignUp(int64_t offset, int64_t alignment) {
  return alignment == 1 ? offset : (offset + alignment - 1) / alignment * alignment;
}

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_LIVE_SECTIONS_H_
