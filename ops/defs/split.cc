#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::StatusOr<std::vector<int64_t>> EqualSizes(int64_t total, int parts) {
  if (total % parts != 0) {
    return BadInputError(StrCat("a dim of ", total, " does not split in ", parts,
                                " equal parts; 'split' may give the sizes"));
  }
  return std::vector<int64_t>(parts, total / parts);
}

absl::Status Infer(InferContext& c) {
  const TensorType& type = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs().Int("axis", 0), type.shape.rank()));
  std::vector<int64_t> sizes;
  if (c.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(sizes, ConstantInts(c, 1, "split", c.num_outputs()));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(sizes, EqualSizes(type.shape[axis], c.num_outputs()));
  }
  if (static_cast<int>(sizes.size()) != c.num_outputs()) {
    return BadInputError(
        StrCat("'split' has ", sizes.size(), " sizes for ", c.num_outputs(), " results"));
  }
  int64_t left = type.shape[axis];
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (sizes[i] < 0 || sizes[i] > left) {
      return BadInputError(
          StrCat("size ", sizes[i], " of part ", i, " is not in [0,", left, "], what is left"));
    }
    left -= sizes[i];
    TensorType part = type;
    part.shape[axis] = sizes[i];
    c.set_output(i, part);
  }
  if (left > 0) return BadInputError(StrCat("the sizes leave ", left, " of axis ", axis, " over"));
  return absl::OkStatus();
}

// Parts that nobody asked for still have a size; it follows from the operand, or from equal parts.
absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", 0), x.shape().rank()));
  const AxisView view = ViewAround(x.shape(), axis);
  const int64_t unit = view.inner * SizeOf(x.dtype());  // bytes per step along the axis
  std::vector<int64_t> sizes;
  if (c.inputs.size() > 1 && c.inputs[1].has_data()) {
    sizes = IntsOf(c.inputs[1]);
  } else {
    MILLRACE_ASSIGN_OR_RETURN(sizes, EqualSizes(view.size, static_cast<int>(c.outputs.size())));
  }
  const std::byte* from = x.bytes();
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const int64_t chunk = sizes[i] * unit;
    for (int64_t o = 0; o < view.outer && c.outputs[i].has_data(); ++o) {
      std::memcpy(c.outputs[i].mutable_bytes() + o * chunk, from + o * view.size * unit, chunk);
    }
    from += chunk;
  }
  return absl::OkStatus();
}

// The parts' gradients side by side; zeros where nothing flows back.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const TensorType& whole = f.input_type(0);
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(f.attrs().Int("axis", 0), whole.shape.rank()));
  std::vector<int64_t> sizes;
  if (f.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(sizes, f.KnownInts(1));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(sizes, EqualSizes(whole.shape[axis], f.num_outputs()));
  }
  std::vector<Term> parts;
  for (int i = 0; i < f.num_outputs(); ++i) {
    if (f.has_output_grad(i)) {
      parts.push_back(f.output_grad(i));
      continue;
    }
    Shape shape = whole.shape;
    shape[axis] = sizes[i];
    parts.push_back(Zeros(c.builder, {whole.dtype, shape}));
  }
  f.set_grad(0, Apply("Concat", parts, AxisAttr(axis)));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), shape.rank());
  for (int d = 0; d < shape.rank(); ++d) {
    if (!axis.ok() || d == *axis || !Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = ShardDim(d);
    for (AxisSharding& output : rule.outputs) output = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

}  // namespace

OpDef SplitOp() {
  return {.name = "Split",
          .doc = "The input cut into parts along an axis",
          .inputs = {{.name = "input", .same_as = "T"},
                     {.name = "split",
                      .dtypes = {DType::kI64},
                      .optional = true,
                      .doc = "the size of each part; absent: equal parts"}},
          .outputs = {{.name = "outputs", .variadic = true, .same_as = "T"}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{0}}},
          .traits = {.host_inputs = {1}, .view = ViewKind::kSplit},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
