// Visits the points of an index space in row-major order, keeping for each of N operands the
// element offset at which it is read or written there. Reference kernels are written with it.
#ifndef MILLRACE_OPS_INDEX_WALK_H_
#define MILLRACE_OPS_INDEX_WALK_H_

#include <array>

#include "graph/types.h"

namespace millrace {

// `strides[k]` holds one stride (elements) per dim of `space`; 0 broadcasts. Calls
// body(std::array<int64_t, N> offsets) for each point; never for an empty space.
template <size_t N, typename Body>
void WalkIndices(const Shape& space, const std::array<Shape, N>& strides, Body&& body) {
  for (int64_t d : space) {
    if (d == 0) return;
  }
  std::array<int64_t, N> at{};
  Shape index;
  for (int d = 0; d < space.rank(); ++d) index.push_back(0);
  while (true) {
    body(at);
    int d = space.rank() - 1;
    for (; d >= 0; --d) {  // the odometer: next along d, or back to its start and on to d - 1
      if (++index[d] < space[d]) {
        for (size_t k = 0; k < N; ++k) at[k] += strides[k][d];
        break;
      }
      for (size_t k = 0; k < N; ++k) at[k] -= strides[k][d] * (space[d] - 1);
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_INDEX_WALK_H_
