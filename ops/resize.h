// Resampling along axes, as Resize means it: for each place of the result along an axis, which
// places of the input it is made of and with what weights. Resize and its gradient apply these axis
// by axis.
#ifndef MILLRACE_OPS_RESIZE_H_
#define MILLRACE_OPS_RESIZE_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

struct AxisResampling {
  int axis = 0;
  int64_t in = 0, out = 0;
  int64_t taps = 1;                   // per place of the result; more than 1 in no nearest mode
  std::vector<int64_t> places = {};   // of the input, in [0, in): out x taps
  std::vector<double> weights = {};   // likewise
  std::vector<uint8_t> outside = {};  // per place of the result: it is the extrapolation value
};

struct Resampling {
  Shape result;
  bool nearest = false;
  double extrapolation = 0;
  // Those along which anything changes, most shrinking first: applied in this order, and transposed
  // in the reverse one, nothing in between is larger than input and result.
  std::vector<AxisResampling> axes;
};

// The operands of Resize that decide what it does; nullptr or empty: not given.
struct ResizeOperands {
  const Tensor* roi = nullptr;
  const Tensor* scales = nullptr;
  const Tensor* sizes = nullptr;
};

// From the attributes of Resize. BadInputError when they and the operands do not go together.
absl::StatusOr<Shape> ResizedShape(const Attrs& attrs, const Shape& input,
                                   const ResizeOperands& operands);
absl::StatusOr<Resampling> ResamplingOf(const Attrs& attrs, const Shape& input,
                                        const ResizeOperands& operands);

}  // namespace millrace

#endif  // MILLRACE_OPS_RESIZE_H_
