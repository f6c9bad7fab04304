// The packing an allocator would make at run time: in order of time, each buffer into the smallest
// hole that holds it. Where lifetimes are a queue or a stack, or all sizes alike, that is hard to
// beat.
#ifndef MILLRACE_PASSES_MEMORY_TIME_FIT_H_
#define MILLRACE_PASSES_MEMORY_TIME_FIT_H_

#include "passes/memory/live_sections.h"

namespace millrace {

// O(n log n). Adds its steps to `work`.
ItemOffsets FitInOrderOfTime(const LiveSections& sections, int64_t& work);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_TIME_FIT_H_
