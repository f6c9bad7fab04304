// Packing from the bottom up without looking back: into the lowest valley of what is placed so far,
// over its section with most still to come, goes the buffer worth most of those that fit between
// the valley's walls. Where none fits, the section's floor rises to the lower wall.
#ifndef MILLRACE_PASSES_MEMORY_VALLEY_FILL_H_
#define MILLRACE_PASSES_MEMORY_VALLEY_FILL_H_

#include <cstdint>
#include <optional>

#include "passes/memory/containment_tree.h"
#include "passes/memory/live_sections.h"

namespace millrace {

// A buffer is worth (heat of the sections it lives in) * size^size_exponent. The heat of a section
// is (load / greatest load)^hotness, times its duration or not.
struct FillRule {
  int hotness = 16;
  bool by_duration = true;
  double size_exponent = 0.5;
};

class ValleyFiller {
 public:
  explicit ValleyFiller(const LiveSections& sections);

  // Gives up, with nullopt, once the packing is bound to be `height` or higher. About O(n log n).
  // Adds its steps to `work`.
  std::optional<ItemOffsets> Fill(const FillRule& rule, int64_t height, int64_t& work);

 private:
  const LiveSections& sections_;
  ContainmentTree tree_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_VALLEY_FILL_H_
