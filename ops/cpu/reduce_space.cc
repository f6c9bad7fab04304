#include "ops/cpu/reduce_space.h"

namespace millrace {

ReduceSpace MakeReduceSpace(const Shape& shape, uint32_t axes) {
  ReduceSpace space;
  space.axes = axes;
  for (int d = 0; d < shape.rank(); ++d) {
    const bool kept = (axes >> d & 1) == 0;
    (kept ? space.out_count : space.row_count) *= shape[d];
    if (shape[d] == 1) continue;
    if (space.rank > 0 && space.dims[space.rank - 1].kept == kept) {
      space.dims[space.rank - 1].size *= shape[d];
    } else {
      space.dims[space.rank++] = {.size = shape[d], .kept = kept};
    }
  }
  if (space.rank == 0) space.dims[space.rank++] = {.size = 1, .kept = true};
  int64_t in_stride = 1, out_stride = 1;
  for (int d = space.rank - 1; d >= 0; --d) {
    ReduceDim& dim = space.dims[d];
    dim.in_stride = in_stride;
    in_stride *= dim.size;
    if (!dim.kept) continue;
    dim.out_stride = out_stride;
    out_stride *= dim.size;
  }
  return space;
}

uint32_t AllAxes(const Shape& shape) { return (1u << shape.rank()) - 1; }

std::optional<uint32_t> AxisSet(std::span<const int64_t> axes, const Shape& shape) {
  uint32_t set = 0;
  for (int64_t axis : axes) {
    if (axis < -shape.rank() || axis >= shape.rank()) return std::nullopt;
    set |= 1u << (axis < 0 ? axis + shape.rank() : axis);
  }
  return set;
}

Shape ReducedShape(const Shape& shape, uint32_t axes, bool keep_dims) {
  Shape out;
  for (int d = 0; d < shape.rank(); ++d) {
    if ((axes >> d & 1) == 0) {
      out.push_back(shape[d]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return out;
}

}  // namespace millrace
