// Copies between two strided places, broken into the regions a Stream (or memcpy) can move.
#ifndef MILLRACE_RUNTIME_STRIDED_COPY_H_
#define MILLRACE_RUNTIME_STRIDED_COPY_H_

#include <array>
#include <cstdint>
#include <span>

#include "graph/status.h"
#include "graph/types.h"
#include "runtime/device.h"

namespace millrace {

// `region` repeated over nested loops that step both addresses, in bytes.
struct StridedCopy {
  struct Loop {
    int64_t count = 1;
    int64_t to_step = 0, from_step = 0;
  };
  CopyRegion region;  // of the first iteration
  std::array<Loop, kMaxRank> loops;
  int num_loops = 0;
  bool empty = false;  // the type has no elements
};

// A place of a value: element strides, one per dim, >= 0; empty: dense row-major.
struct StridedPlace {
  std::byte* data = nullptr;
  MemorySpace space = MemorySpace::kDevice;
  std::span<const int64_t> strides = {};
};

// Adjacent dims that both places step through evenly become one; of what remains, the innermost
// contiguous run is a row, the longest other dim the rows of a region, the rest loops.
StridedCopy PlanStridedCopy(const TensorType& type, const StridedPlace& to,
                            const StridedPlace& from);

// Calls move(const CopyRegion&) -> absl::Status for each region, the last loop fastest; stops at
// the first error. Does not allocate.
template <typename Move>
absl::Status ForEachRegion(const StridedCopy& copy, Move&& move) {
  if (copy.empty) return absl::OkStatus();
  CopyRegion region = copy.region;
  std::array<int64_t, kMaxRank> index{};
  while (true) {
    if (absl::Status status = move(region); !status.ok()) return status;
    int loop = copy.num_loops - 1;
    for (; loop >= 0; --loop) {
      const StridedCopy::Loop& l = copy.loops[loop];
      region.to += l.to_step;
      region.from += l.from_step;
      if (++index[loop] < l.count) break;
      index[loop] = 0;
      region.to -= l.count * l.to_step;
      region.from -= l.count * l.from_step;
    }
    if (loop < 0) return absl::OkStatus();
  }
}

// memcpy of each row, for places that the host may touch.
void CopyOnHost(const CopyRegion& region);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_STRIDED_COPY_H_
