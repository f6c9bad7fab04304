// Lifetimes: when the bytes of each owner (an allocation that slices share) are in use, as
// intervals of moments (passes/memory/access_log.h). Two owners whose intervals do not meet may
// share bytes: every access of one happens before every access of the other, whatever order streams
// and events let the moments take.
#ifndef MILLRACE_PASSES_MEMORY_LIFETIMES_H_
#define MILLRACE_PASSES_MEMORY_LIFETIMES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/plan.h"
#include "passes/memory/access_log.h"

namespace millrace {

// Half-open, in moments. An owner that is never touched has an empty one.
struct Lifetime {
  int32_t lower = 0, upper = 0;
  bool operator==(const Lifetime&) const = default;
};

// `owner_of_slice`: -1 for slices that nobody asks about.
std::vector<Lifetime> LifetimesOf(const Program& program, const AccessLog& log,
                                  std::span<const int32_t> owner_of_slice, int32_t num_owners);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_LIFETIMES_H_
