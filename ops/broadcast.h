// ONNX (numpy) broadcasting: shapes are aligned at their last dims; a dim of 1, or one that is not
// there, is repeated.
#ifndef MILLRACE_OPS_BROADCAST_H_
#define MILLRACE_OPS_BROADCAST_H_

#include "graph/status.h"
#include "graph/types.h"

namespace millrace {

// BadInputError: "dims 3 and 4 do not broadcast".
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// The strides, in elements, with which a dense operand of `shape` is read over `space`: 0 along
// dims it is repeated over. `shape` must broadcast to `space`.
Shape BroadcastStrides(const Shape& shape, const Shape& space);

}  // namespace millrace

#endif  // MILLRACE_OPS_BROADCAST_H_
