// The offset planner: buffers with known lifetimes in, an offset for each out, so that buffers that
// live at the same time lie apart and the whole is as low as possible. Knows nothing of graphs.
#ifndef MILLRACE_PASSES_MEMORY_PACK_H_
#define MILLRACE_PASSES_MEMORY_PACK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/status.h"

namespace millrace {

// Lives at the times [lower, upper). An empty one, in time or in bytes, lies at 0 with everybody.
struct TimedBuffer {
  int64_t lower = 0, upper = 0;
  int64_t size_bytes = 0;
  int64_t alignment = 1;  // its offset is a multiple
};

struct PackOptions {
  // Stop at a packing of at most this height; 0: as low as possible.
  int64_t capacity_bytes = 0;
  // When to stop searching, counted in steps of about a nanosecond, so that the result does not
  // depend on the machine.
  int64_t max_work = 100'000'000;
};

struct Packing {
  std::vector<int64_t> offsets;   // by buffer
  int64_t height_bytes = 0;       // one past the last byte of any buffer
  int64_t lower_bound_bytes = 0;  // no packing is lower: what lives at the worst time, or a proof
  int64_t peak_time = 0;          // a time at which most is live
  int64_t work = 0;
};

// Deterministic. InfeasibleError when the buffers of one moment exceed 2^62 bytes. A packing higher
// than the capacity asked for is returned all the same: it is the lowest found.
absl::StatusOr<Packing> Pack(std::span<const TimedBuffer> buffers, const PackOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_PACK_H_
