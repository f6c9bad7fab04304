#include "graph/strings.h"
#include "ops/op_def.h"
#include "ops/reshaping.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape& shape = c.input(0).shape;
  const int rank = shape.rank();
  int64_t axis = c.attrs().Int("axis", 1);
  if (axis < -rank || axis > rank) {  // unlike elsewhere, `rank` itself is an axis
    return BadInputError(StrCat("axis ", axis, " is out of range [", -rank, ",", rank, "]"));
  }
  if (axis < 0) axis += rank;
  const std::optional<int64_t> rows = CheckedNumElements(Shape(shape.dims().first(axis)));
  const std::optional<int64_t> cols = CheckedNumElements(Shape(shape.dims().subspan(axis)));
  if (!rows.has_value() || !cols.has_value()) {
    return BadInputError("a dim of the result would be too large");
  }
  c.set_output(0, {c.input(0).dtype, {*rows, *cols}});
  return absl::OkStatus();
}

}  // namespace

OpDef FlattenOp() {
  return {.name = "Flatten",
          .doc = "The input as a matrix: dims before `axis` are rows, the others columns",
          .inputs = {{.name = "input", .same_as = "T"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{1},
                     .doc = "in [-rank, rank]"}},
          .traits = {.in_place = {{0, 0}}, .view = ViewKind::kWhole},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = ReshapeReference,
          .gradient = ReshapeGradient,
          .sharding = ReshapeRules};
}

}  // namespace millrace
