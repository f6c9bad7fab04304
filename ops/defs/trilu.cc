// Trilu: the triangle of a matrix, or of each in a batch of them, on one side of its k-th diagonal;
// zeros elsewhere.
#include <algorithm>
#include <cstring>

#include "graph/strings.h"
#include "ops/dim_maps.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const int rank = c.input(0).shape.rank();
  if (rank < 2) return BadInputError(StrCat("the input must have rank 2 or more, not ", rank));
  if (c.has_input(1) && NumElements(c.input(1).shape) != 1) {
    return BadInputError(StrCat("'k' must have one element, but is ", ToString(c.input(1).shape)));
  }
  return InferLikeInput(c);
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  const Shape& shape = x.shape();
  if (x.num_elements() == 0) return absl::OkStatus();
  const bool upper = c.attrs.Bool("upper", true);
  const int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
  int64_t k = c.inputs.size() > 1 && c.inputs[1].has_data() ? c.inputs[1].AsInt64(0) : 0;
  k = std::clamp(k, -rows - 1, columns + 1);
  const int64_t size = SizeOf(x.dtype());
  std::byte* to = c.outputs[0].mutable_bytes();
  const std::byte* from = x.bytes();
  for (int64_t row = 0; row < x.num_elements() / columns; ++row) {
    const int64_t diagonal = std::clamp<int64_t>(row % rows + k + (upper ? 0 : 1), 0, columns);
    const int64_t first = upper ? diagonal : 0, last = upper ? columns : diagonal;
    std::memset(to, 0, first * size);
    std::memmove(to + first * size, from + first * size, (last - first) * size);
    std::memset(to + last * size, 0, (columns - last) * size);
    to += columns * size;
    from += columns * size;
  }
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  std::vector<Term> operands = {f.output_grad(0)};
  if (f.has_input(1)) operands.push_back(f.input(1));
  Attrs attrs;
  attrs.Set("upper", f.attrs().Bool("upper", true));
  f.set_grad(0, Apply("Trilu", operands, std::move(attrs)));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<bool> batch(query.inputs[0]->shape.rank(), true);
  batch[batch.size() - 1] = batch[batch.size() - 2] = false;
  return KeptDimRules(query, batch);
}

}  // namespace

OpDef TriluOp() {
  return {.name = "Trilu",
          .doc = "The upper or lower triangle of matrices, zeros elsewhere",
          .inputs = {{.name = "input", .same_as = "T", .doc = "the last two dims are matrices"},
                     {.name = "k",
                      .dtypes = {DType::kI64},
                      .optional = true,
                      .doc = "the diagonal that bounds the triangle: 0 is the main one, 1 the one "
                             "above; one element; absent: 0"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "upper", .kind = AttrKind::kBool, .default_value = true}},
          .traits = {.in_place = {{0, 0}}, .host_inputs = {1}},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
