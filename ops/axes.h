// Axes and small constant lists, as attributes and operands give them.
#ifndef MILLRACE_OPS_AXES_H_
#define MILLRACE_OPS_AXES_H_

#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace millrace {

// An axis in [-rank, rank) as one in [0, rank). BadInputError: "axis 3 is out of range [-2,2)".
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank);
// Sorted; an axis given twice is an error.
absl::StatusOr<std::vector<int>> NormalizeAxes(std::span<const int64_t> axes, int rank);

// Operand i as a list, where it must be known while planning: a shape, axes, sizes. Errors when it
// is not known, not of rank 1, or longer than `max_size`.
absl::StatusOr<std::vector<int64_t>> ConstantInts(const InferContext& context, int i,
                                                  std::string_view name, int64_t max_size);
// Operand i, one number of at least `min`, where it must be known while planning.
absl::StatusOr<int64_t> ConstantInt(const InferContext& context, int i, std::string_view name,
                                    int64_t min);
// The elements of an integer tensor, for reference kernels.
std::vector<int64_t> IntsOf(const Tensor& tensor);

// The product of the dims from `first` on. It is cut off at 2^48, which only an empty shape, one
// with a 0 among the others, can exceed.
int64_t ElementsFrom(const Shape& shape, int first);

// A tensor seen as [outer, size, inner] around one axis; outer and inner are 0 when it is empty.
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;
};
AxisView ViewAround(const Shape& shape, int axis);

}  // namespace millrace

#endif  // MILLRACE_OPS_AXES_H_
