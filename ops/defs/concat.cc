#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  Shape shape = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis", 0), shape.rank()));
  for (int i = 1; i < c.num_inputs(); ++i) {
    const Shape& other = c.input(i).shape;
    Shape expected = shape;
    if (other.rank() == shape.rank()) expected[axis] = other[axis];
    if (other != expected) {
      return BadInputError(StrCat("operand ", i, " is ", ToString(other), ", which differs from ",
                                  ToString(c.input(0).shape), " beside axis ", axis));
    }
    shape[axis] += other[axis];
    if (shape[axis] > kMaxBytes) return BadInputError("the result is too large");
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.outputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", 0), shape.rank()));
  const AxisView view = ViewAround(shape, axis);
  const int64_t unit = view.inner * SizeOf(c.outputs[0].dtype());  // bytes per step along the axis
  std::byte* to = c.outputs[0].mutable_bytes();
  for (const Tensor& part : c.inputs) {
    const int64_t chunk = part.shape()[axis] * unit;
    for (int64_t o = 0; o < view.outer; ++o) {
      std::memcpy(to + o * view.size * unit, part.bytes() + o * chunk, chunk);
    }
    to += chunk;
  }
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const int rank = f.output_type(0).shape.rank();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(f.attrs().Int("axis", 0), rank));
  std::vector<int64_t> sizes;
  for (int i = 0; i < f.num_inputs(); ++i) sizes.push_back(f.input_type(i).shape[axis]);
  Attrs attrs;
  attrs.Set("axis", int64_t{axis});
  const ValueId sizes_id = Ints(c.builder, sizes).id, dy = f.output_grad(0).id;
  const std::vector<ValueId> parts =
      c.builder.AddNode("Split", {dy, sizes_id}, std::move(attrs), "", f.num_inputs()).outputs;
  for (int i = 0; i < f.num_inputs(); ++i) {
    if (f.wants(i)) f.set_grad(i, {&c.builder, parts[i]});
  }
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.outputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), shape.rank());
  const auto all = [&](std::string_view note, AxisSharding sharding) {
    ShardingRule rule = ReplicateAll(query, note);
    for (AxisSharding& input : rule.inputs) input = sharding;
    rule.outputs[0] = sharding;
    rules.push_back(std::move(rule));
  };
  for (int d = 0; d < shape.rank(); ++d) {
    if (axis.ok() && d != *axis && Divisible(shape, d)) all(StrCat("split dim ", d), ShardDim(d));
  }
  for (Reduction reduction : kAllReductions) {
    all(StrCat("keep all partial ", ReductionName(reduction)), Partial(reduction));
  }
  return rules;
}

}  // namespace

OpDef ConcatOp() {
  return {.name = "Concat",
          .doc = "The inputs, one after another along an axis",
          .inputs = {{.name = "inputs", .variadic = true, .same_as = "T"}},
          .outputs = {{.name = "concat_result", .same_as = "T"}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .required = true}},
          .traits = {.view = ViewKind::kJoin},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
