// Tile: the operand repeated along each dim.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dim_maps.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const TensorType& input = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats,
                            ConstantInts(c, 1, "repeats", kMaxRank));
  if (static_cast<int>(repeats.size()) != input.shape.rank()) {
    return BadInputError(
        StrCat("'repeats' has ", repeats.size(), " entries for rank ", input.shape.rank()));
  }
  Shape shape = input.shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (repeats[d] < 0)
      return BadInputError(StrCat("dim ", d, " is repeated ", repeats[d], " times"));
    if (shape[d] > 0 && repeats[d] > kMaxBytes / shape[d]) {
      return BadInputError("the result is too large");
    }
    shape[d] *= repeats[d];
  }
  c.set_output(0, {input.dtype, shape});
  return absl::OkStatus();
}

std::vector<DimMap> MapsOf(const Shape& from, const Shape& to) {
  std::vector<DimMap> maps;
  for (int d = 0; d < from.rank(); ++d) {
    maps.push_back({.runs = {{0, 1, from[d]}}, .times = from[d] > 0 ? to[d] / from[d] : 1});
  }
  return maps;
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  const std::vector<DimMap> maps = MapsOf(c.inputs[0].shape(), c.outputs[0].shape());
  CopyByMaps(c.inputs[0], maps, nullptr, c.outputs[0]);
  return absl::OkStatus();
}

// The copies along each dim added up, one dim after another: the result seen as
// [dims before, copies, one copy and the dims after].
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape &from = f.input_type(0).shape, &to = f.output_type(0).shape;
  if (NumElements(to) == 0) {
    f.set_grad(0, Zeros(c.builder, f.input_type(0)));
    return absl::OkStatus();
  }
  Term dx = f.output_grad(0);
  bool reshaped = false;
  int64_t before = 1, after = NumElements(to);
  for (int d = 0; d < from.rank(); ++d) {
    after /= to[d];
    if (to[d] != from[d]) {
      const Term copies = Reshape(dx, {before, to[d] / from[d], from[d] * after});
      const int64_t axis = 1;
      dx = Sum(copies, {&axis, 1}, /*keep=*/false);
      reshaped = true;
    }
    before *= from[d];
  }
  f.set_grad(0, reshaped ? Reshape(dx, from) : dx);
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const Shape &from = query.inputs[0]->shape, &to = query.outputs[0]->shape;
  std::vector<bool> single(from.rank());
  for (int d = 0; d < from.rank(); ++d) single[d] = from[d] == to[d];
  return KeptDimRules(query, single);
}

}  // namespace

std::optional<std::vector<DimMap>> TileMaps(const NodeQuery& query) {
  const Shape &from = query.inputs[0]->shape, &to = query.outputs[0]->shape;
  if (from.rank() != to.rank() || NumElements(to) == 0) return std::nullopt;
  for (int d = 0; d < from.rank(); ++d) {
    if (from[d] == 0 || to[d] % from[d] != 0) return std::nullopt;
  }
  return MapsOf(from, to);
}

OpDef TileOp() {
  return {.name = "Tile",
          .doc = "The input, repeated along each dim",
          .inputs = {{.name = "input", .same_as = "T"},
                     {.name = "repeats", .dtypes = {DType::kI64}, .doc = "per dim"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.host_inputs = {1}},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = MovingWork};
}

}  // namespace millrace
