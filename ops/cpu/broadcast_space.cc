#include "ops/cpu/broadcast_space.h"

#include <algorithm>

#include "ops/broadcast.h"

namespace millrace {

BroadcastSpace MakeBroadcastSpace(std::span<const Shape> operands, const Shape& out) {
  MILLRACE_CHECK(operands.size() <= kMaxBroadcast);
  BroadcastSpace space;
  space.count = NumElements(out);
  if (space.count == 0) {
    space.dims[0] = 0;
    return space;
  }
  Shape strides[kMaxBroadcast];
  for (size_t k = 0; k < operands.size(); ++k) strides[k] = BroadcastStrides(operands[k], out);
  int rank = 0;
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == 1) continue;
    bool merges = rank > 0;
    for (size_t k = 0; k < operands.size(); ++k) {
      merges = merges && space.strides[k][rank - 1] == strides[k][d] * out[d];
    }
    if (!merges) space.dims[rank++] = 1;
    space.dims[rank - 1] *= out[d];
    for (size_t k = 0; k < operands.size(); ++k) space.strides[k][rank - 1] = strides[k][d];
  }
  if (rank > 0) space.rank = rank;
  return space;
}

BroadcastSpace BroadcastSpaceOf(const NodeQuery& query) {
  Shape shapes[kMaxBroadcast];
  for (size_t i = 0; i < query.inputs.size(); ++i) shapes[i] = query.inputs[i]->shape;
  return MakeBroadcastSpace(std::span(shapes, query.inputs.size()), query.outputs[0]->shape);
}

}  // namespace millrace
