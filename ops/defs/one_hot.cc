// OneHot: each index becomes a new dim of `depth` elements, one of them on. Indices count from the
// end when negative; others out of range turn nothing on.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape& indices = c.input(0).shape;
  if (NumElements(c.input(1).shape) != 1) {
    return BadInputError(
        StrCat("'depth' must have one element, but is ", ToString(c.input(1).shape)));
  }
  if (c.input(2).shape != Shape{2}) {
    return BadInputError(
        StrCat("'values' must be [2], for off and on, but is ", ToString(c.input(2).shape)));
  }
  if (indices.rank() == kMaxRank) {
    return BadInputError(StrCat("the result would have ", kMaxRank + 1, " dims, at most ", kMaxRank,
                                " are possible"));
  }
  const std::optional<Tensor> known = c.constant(1);
  if (!known.has_value()) {
    return BadInputError(StrCat("'depth' must be known while planning, but ", c.why_unknown(1)));
  }
  const int64_t depth = known->AsInt64(0);
  if (depth < 0 || depth > kMaxBytes) return BadInputError(StrCat("'depth' is ", depth));
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs().Int("axis", -1), indices.rank() + 1));
  Shape shape(indices.dims().first(axis));
  shape.push_back(depth);
  for (int64_t d : indices.dims().subspan(axis)) shape.push_back(d);
  c.set_output(0, {c.input(2).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor &indices = c.inputs[0], &values = c.inputs[2];
  Tensor& out = c.outputs[0];
  if (out.num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", -1), out.shape().rank()));
  const AxisView view = ViewAround(out.shape(), axis);
  const int64_t size = SizeOf(out.dtype());
  const std::byte *off = values.bytes(), *on = values.bytes() + size;
  std::byte* to = out.mutable_bytes();
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t k = 0; k < view.size; ++k) {
      for (int64_t i = 0; i < view.inner; ++i, to += size) {
        const int64_t index = indices.AsInt64(o * view.inner + i);
        std::memcpy(to, (index < 0 ? index + view.size : index) == k ? on : off, size);
      }
    }
  }
  return absl::OkStatus();
}

// The gradient of each of the two values is the sum over where it stands.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(2)) return absl::OkStatus();
  const Term dy = f.output_grad(0);
  Tensor zero_one = Tensor::Zeros({dy.dtype, {2}});
  zero_one.Set(1, 1);
  const Term values{&c.builder, c.builder.Constant("off_on", std::move(zero_one)), dy.dtype};
  Attrs attrs = AxisAttr(f.attrs().Int("axis", -1));
  Term mask = Apply("OneHot", {f.input(0), f.input(1), values}, std::move(attrs));
  mask.dtype = dy.dtype;
  const Shape& shape = f.output_type(0).shape;
  const auto total = [&](const Term& x) { return Reshape(SumTo(x, shape, {}), {1}); };
  f.set_grad(2, Apply("Concat", {total(dy * (1 - mask)), total(dy * mask)}, AxisAttr(0)));
  return absl::OkStatus();
}

// A cut of the indices is the same cut of the result, before or after the new dim.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& indices = query.inputs[0]->shape;
  const auto axis = NormalizeAxis(query.attrs.Int("axis", -1), indices.rank() + 1);
  for (int d = 0; axis.ok() && d < indices.rank(); ++d) {
    if (!Divisible(indices, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d, " of the indices"));
    rule.inputs[0] = ShardDim(d);
    rule.outputs[0] = ShardDim(d < *axis ? d : d + 1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

OpDef OneHotOp() {
  return {.name = "OneHot",
          .doc = "Each index as a row of values off, but one on",
          .inputs = {{.name = "indices", .dtypes = NumericTypes()},
                     {.name = "depth", .dtypes = NumericTypes(), .doc = "one element"},
                     {.name = "values", .same_as = "T", .doc = "[off, on]"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{-1},
                     .doc = "of the result, where the new dim is"}},
          .traits = {.host_inputs = {1}},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
