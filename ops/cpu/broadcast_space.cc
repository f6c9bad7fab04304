#include "ops/cpu/broadcast_space.h"

#include "ops/broadcast.h"

namespace millrace {

BroadcastSpace MakeBroadcastSpace(const Shape& a, const Shape& b, const Shape& out) {
  BroadcastSpace space;
  space.count = NumElements(out);
  if (space.count == 0) {
    space.dims[0] = 0;
    return space;
  }
  const Shape a_strides = BroadcastStrides(a, out), b_strides = BroadcastStrides(b, out);
  int rank = 0;
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == 1) continue;
    const int before = rank - 1;
    if (rank > 0 && space.a[before] == a_strides[d] * out[d] &&
        space.b[before] == b_strides[d] * out[d]) {
      space.dims[before] *= out[d];
      space.a[before] = a_strides[d];
      space.b[before] = b_strides[d];
      continue;
    }
    space.dims[rank] = out[d];
    space.a[rank] = a_strides[d];
    space.b[rank] = b_strides[d];
    ++rank;
  }
  if (rank > 0) space.rank = rank;
  return space;
}

}  // namespace millrace
