#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/op_def.h"
#include "ops/reshaping.h"

namespace millrace {
namespace {

// The dims asked for, with 0 ("as in the input") and -1 ("what is left") resolved.
absl::StatusOr<Shape> Resolve(const Shape& from, const std::vector<int64_t>& asked,
                              bool allow_zero) {
  Shape shape;
  int open = -1;
  for (int d = 0; d < static_cast<int>(asked.size()); ++d) {
    int64_t size = asked[d];
    if (size < -1) return BadInputError(StrCat("dim ", d, " of the new shape is ", size));
    if (size == -1) {
      if (open >= 0) return BadInputError("the new shape has two dims of -1");
      open = d;
      size = 1;
    } else if (size == 0 && !allow_zero) {
      if (d >= from.rank()) {
        return BadInputError(StrCat("dim ", d, " of the new shape is 0 (as in the input), but ",
                                    ToString(from), " has no dim ", d));
      }
      size = from[d];
    }
    shape.push_back(size);
  }
  const int64_t count = NumElements(from);
  const std::optional<int64_t> rest = CheckedNumElements(shape);
  if (!rest.has_value()) return BadInputError("the new shape has too many elements");
  if (open >= 0) {
    if (*rest == 0) return BadInputError("-1 beside a dim of 0 may mean anything");
    shape[open] = count / *rest;
  }
  if (CheckedNumElements(shape) != count) {
    if (open >= 0) {
      return BadInputError(StrCat(count, " elements of ", ToString(from), " do not divide by the ",
                                  *rest, " of the other dims"));
    }
    return BadInputError(
        StrCat(ToString(from), " has ", count, " elements, ", ToString(shape), " has ", *rest));
  }
  return shape;
}

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> asked,
                            ConstantInts(c, 1, "shape", kMaxRank));
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape,
                            Resolve(c.input(0).shape, asked, c.attrs().Bool("allowzero", false)));
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

}  // namespace

OpDef ReshapeOp() {
  return {.name = "Reshape",
          .doc = "The same elements, in the same order, under another shape",
          .inputs = {{.name = "data", .same_as = "T"},
                     {.name = "shape",
                      .dtypes = {DType::kI64},
                      .doc = "the new dims; 0: as in the input, one -1: what is left"}},
          .outputs = {{.name = "reshaped", .same_as = "T"}},
          .attrs = {{.name = "allowzero",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "a 0 in the shape is a dim of size 0"}},
          .traits = {.in_place = {{0, 0}}, .host_inputs = {1}, .view = ViewKind::kWhole},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = ReshapeReference,
          .gradient = ReshapeGradient,
          .sharding = ReshapeRules};
}

}  // namespace millrace
