// LiveBytes: what of a planned program's memory holds something that is still needed, moment by
// moment, read off the plan alone: bytes live from a write to the last read before the next one,
// whichever slices those go through. The most that is live at one moment is what no packing of
// these values in this order can do with less than.
#ifndef MILLRACE_PASSES_MEMORY_LIVE_BYTES_H_
#define MILLRACE_PASSES_MEMORY_LIVE_BYTES_H_

#include <cstdint>
#include <vector>

#include "graph/plan.h"

namespace millrace {

struct LiveValue {
  ValueRef value;  // !value.valid(): scratch
  int64_t bytes = 0;
};

// Of one buffer.
struct LiveBytes {
  int64_t most_bytes = 0;
  const Instruction* peak = nullptr;  // the first at which most is live; null: the session
  std::vector<LiveValue> at_peak;     // most bytes first, then by value
};

// By buffer. The plan is structurally sound; what lies outside its buffer is not looked at. Of a
// program that runs at many mesh coordinates, at the first of them.
std::vector<LiveBytes> MeasureLiveBytes(const PlanBundle& plan, const Program& program);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_LIVE_BYTES_H_
