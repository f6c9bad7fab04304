// Sliding windows of Conv and pooling, as numbers per spatial dim.
#ifndef MILLRACE_OPS_CPU_WINDOW_SPEC_H_
#define MILLRACE_OPS_CPU_WINDOW_SPEC_H_

#include <optional>
#include <span>

#include "graph/target.h"

namespace millrace {

inline constexpr int kMaxSpatialDims = 3;

struct WindowDim {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;  // as much as the last window needs, at least 0
};

struct WindowSpec {
  int rank = 0;
  WindowDim dims[kMaxSpatialDims];
};

// Of a node with attributes auto_pad, pads, strides and dilations whose operand and result are
// [N, C, spatial...]; `kernel` has one size per spatial dim. nullopt: not 1 to 3 spatial dims, or
// attributes of another length.
std::optional<WindowSpec> WindowSpecOf(const Attrs& attrs, const Shape& in, const Shape& out,
                                       std::span<const int64_t> kernel);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_WINDOW_SPEC_H_
