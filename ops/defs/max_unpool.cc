// MaxUnpool: zeros but for the elements of X, each at its index: what MaxPool, with Indices, took
// away. Indices count over all of the result the attributes give; where `output_shape` asks for a
// larger one, that result lies at its beginning.
#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/index_walk.h"
#include "ops/reference_dispatch.h"
#include "ops/window.h"

namespace millrace {
namespace {

// The shape that MaxPool with the same attributes reduces to X's.
absl::StatusOr<Shape> PooledFrom(const Attrs& attrs, const Shape& x) {
  const size_t rank = static_cast<size_t>(std::max(0, x.rank() - 2));
  const auto list = [&](std::string_view name, size_t size, int64_t otherwise) {
    return attrs.Find(name) == nullptr ? std::vector<int64_t>(size, otherwise) : attrs.Ints(name);
  };
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  const std::vector<int64_t> strides = list("strides", rank, 1), pads = list("pads", 2 * rank, 0);
  if (rank == 0)
    return BadInputError(StrCat("X must be [N,C,spatial...], but has rank ", x.rank()));
  if (kernel.size() != rank || strides.size() != rank || pads.size() != 2 * rank) {
    return BadInputError(
        StrCat("'kernel_shape' and 'strides' must have ", rank, " entries, 'pads' ", 2 * rank));
  }
  constexpr int64_t kMaxNumber = int64_t{1} << 31;
  const auto bounded = [](int64_t v) { return v >= 0 && v <= kMaxNumber; };
  Shape shape{x[0], x[1]};
  for (size_t d = 0; d < rank; ++d) {
    const int64_t in = x[static_cast<int>(d) + 2];
    for (int64_t v : {kernel[d], strides[d], pads[d], pads[d + rank], in}) {
      if (!bounded(v)) return BadInputError(StrCat("a size of ", v, " is out of range [0,2^31]"));
    }
    const int64_t size = (in - 1) * strides[d] + kernel[d] - pads[d] - pads[d + rank];
    if (in > 0 && size < 0) {
      return BadInputError(StrCat("spatial dim ", d, " of the result would be ", size));
    }
    shape.push_back(in == 0 ? 0 : size);
  }
  return shape;
}

absl::StatusOr<Shape> ResultShape(const Shape& pooled_from, const std::vector<int64_t>& asked) {
  bool fits = static_cast<int>(asked.size()) == pooled_from.rank();
  for (int d = 0; fits && d < pooled_from.rank(); ++d) {
    fits = asked[d] >= pooled_from[d] && asked[d] <= kMaxBytes &&
           (d > 1 || asked[d] == pooled_from[d]);
  }
  if (fits) return Shape(asked);
  return BadInputError(StrCat("'output_shape' must have the spatial dims of ",
                              ToString(pooled_from), " or larger ones"));
}

absl::Status Infer(InferContext& c) {
  const Shape& x = c.input(0).shape;
  if (c.input(1).shape != x) {
    return BadInputError(StrCat("'I' must have the shape of 'X', ", ToString(x), ", but has ",
                                ToString(c.input(1).shape)));
  }
  MILLRACE_ASSIGN_OR_RETURN(Shape shape, PooledFrom(c.attrs(), x));
  if (c.has_input(2)) {
    MILLRACE_ASSIGN_OR_RETURN(const auto asked, ConstantInts(c, 2, "output_shape", kMaxRank));
    MILLRACE_ASSIGN_OR_RETURN(shape, ResultShape(shape, asked));
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Shape from, PooledFrom(c.attrs, c.inputs[0].shape()));
  const std::span<const int64_t> indices = c.inputs[1].data<int64_t>();
  const Shape to = DenseStrides(c.outputs[0].shape());
  const int64_t size = NumElements(from);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    const std::span<const T> x = c.inputs[0].data<T>();
    const std::span<T> y = c.outputs[0].mutable_data<T>();
    std::fill(y.begin(), y.end(), T(0));
    for (size_t i = 0; i < x.size(); ++i) {
      int64_t rest = indices[i], at = 0;
      if (rest < 0 || rest >= size) {
        return BadInputError(StrCat("MaxUnpool: index ", rest, " is out of range [0,", size, ")"));
      }
      for (int d = from.rank() - 1; d >= 0; --d) {
        at += rest % from[d] * to[d];
        rest /= from[d];
      }
      y[at] = x[i];
    }
    return absl::OkStatus();
  });
}

}  // namespace

OpDef MaxUnpoolOp() {
  return {
      .name = "MaxUnpool",
      .doc = "The elements of X at their indices, zeros elsewhere: MaxPool undone",
      .tier = 2,
      .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"},
                 {.name = "I", .dtypes = {DType::kI64}, .doc = "indices, as MaxPool gives them"},
                 {.name = "output_shape",
                  .dtypes = {DType::kI64},
                  .optional = true,
                  .doc = "all dims of the result, where they exceed what the attributes give"}},
      .outputs = {{.name = "output", .same_as = "T"}},
      .attrs = {{.name = "kernel_shape", .kind = AttrKind::kInts, .required = true},
                {.name = "pads", .kind = AttrKind::kInts, .doc = "of the pool; absent: 0"},
                {.name = "strides", .kind = AttrKind::kInts, .doc = "of the pool; absent: 1"}},
      .traits = {.host_inputs = {2}},
      .infer = Infer,
      .reference = Reference};
}

}  // namespace millrace
