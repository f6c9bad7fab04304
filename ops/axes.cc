#include "ops/axes.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (rank == 0) {
    return BadInputError(StrCat("axis ", axis, " is out of range: there are no dims"));
  }
  if (axis < -rank || axis >= rank) {
    return BadInputError(StrCat("axis ", axis, " is out of range [", -rank, ",", rank, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<std::vector<int>> NormalizeAxes(std::span<const int64_t> axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) {
    MILLRACE_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, rank));
    if (std::find(result.begin(), result.end(), normal) != result.end()) {
      return BadInputError(StrCat("axis ", axis, " is given twice"));
    }
    result.push_back(normal);
  }
  std::sort(result.begin(), result.end());
  return result;
}

absl::StatusOr<std::vector<int64_t>> ConstantInts(const InferContext& context, int i,
                                                  std::string_view name, int64_t max_size) {
  const Shape& shape = context.input(i).shape;
  if (shape.rank() != 1) {
    return BadInputError(StrCat("'", name, "' must have rank 1, but has rank ", shape.rank()));
  }
  // Before the data are asked for: a hostile file may declare a constant of any size.
  if (shape[0] > max_size) {
    return BadInputError(
        StrCat("'", name, "' has ", shape[0], " elements, at most ", max_size, " make sense"));
  }
  const std::optional<Tensor> tensor = context.constant(i);
  if (!tensor.has_value()) {
    return BadInputError(
        StrCat("'", name, "' must be known while planning, but ", context.why_unknown(i)));
  }
  return IntsOf(*tensor);
}

absl::StatusOr<int64_t> ConstantInt(const InferContext& context, int i, std::string_view name,
                                    int64_t min) {
  if (CheckedNumElements(context.input(i).shape) != 1) {
    return BadInputError(
        StrCat("'", name, "' must have one element, but is ", ToString(context.input(i).shape)));
  }
  const std::optional<Tensor> tensor = context.constant(i);
  if (!tensor.has_value()) {
    return BadInputError(
        StrCat("'", name, "' must be known while planning, but ", context.why_unknown(i)));
  }
  const int64_t value = tensor->AsInt64(0);
  if (value >= min && value <= kMaxBytes) return value;
  return BadInputError(StrCat("'", name, "' is ", value, ", expected at least ", min));
}

std::vector<int64_t> IntsOf(const Tensor& tensor) {
  std::vector<int64_t> values(tensor.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.AsInt64(static_cast<int64_t>(i));
  return values;
}

int64_t ElementsFrom(const Shape& shape, int first) {
  return CheckedNumElements(Shape(shape.dims().subspan(first))).value_or(kMaxBytes);
}

AxisView ViewAround(const Shape& shape, int axis) {
  AxisView view;
  view.size = shape[axis];
  if (NumElements(shape) == 0) {  // the products of the other dims might overflow
    view.outer = view.inner = 0;
    return view;
  }
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis) (d < axis ? view.outer : view.inner) *= shape[d];
  }
  return view;
}

}  // namespace millrace
