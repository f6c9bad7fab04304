// GroupNormalization: the channels of each image are cut into groups; each group is normalized by
// its own mean and variance, then scaled and shifted by channel. InstanceNormalization: a group is
// a channel. A group's elements lie one after another: X is rows of them.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/normalization.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct Groups {
  int64_t batch = 0, groups = 0;
  int64_t channels = 0;   // of a group
  int64_t positions = 0;  // of a channel
  int64_t row() const { return channels * positions; }
};

absl::StatusOr<Groups> GroupsOf(const Attrs& attrs, const Shape& x) {
  if (x.rank() < 3)
    return BadInputError(StrCat("X must be [N,C,spatial...], but has rank ", x.rank()));
  Groups g;
  g.batch = x[0];
  g.groups = attrs.Int("num_groups", x[1]);  // InstanceNormalization has no such attribute
  if (g.groups < 1 && x[1] > 0) return BadInputError(StrCat("'num_groups' is ", g.groups));
  if (g.groups > 0 && x[1] % g.groups != 0) {
    return BadInputError(StrCat(x[1], " channels do not divide in ", g.groups, " groups"));
  }
  g.channels = g.groups == 0 ? 0 : x[1] / g.groups;
  g.positions = ElementsFrom(x, 2);
  return g;
}

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_RETURN_IF_ERROR(GroupsOf(c.attrs(), x.shape).status());
  for (int i = 1; i <= 2; ++i) {
    if (c.input(i).shape == Shape{x.shape[1]}) continue;
    return BadInputError(StrCat("'scale' and bias must be [", x.shape[1], "], but operand ", i,
                                " is ", ToString(c.input(i).shape)));
  }
  c.set_output(0, x);
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();  // dims may be huge
  MILLRACE_ASSIGN_OR_RETURN(const Groups g, GroupsOf(c.attrs, c.inputs[0].shape()));
  const double epsilon = c.attrs.Float("epsilon", kNormalizationEpsilon);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    const std::span<const T> scale = c.inputs[1].data<T>(), bias = c.inputs[2].data<T>();
    for (int64_t row = 0; row < g.batch * g.groups; ++row, x += g.row(), y += g.row()) {
      const Moments m = MomentsOf(x, g.row());
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      for (int64_t i = 0; i < g.row(); ++i) {
        const int64_t channel = row % g.groups * g.channels + i / g.positions;
        y[i] = Narrow<T>((static_cast<double>(x[i]) - m.mean) * inverse *
                             static_cast<double>(scale[channel]) +
                         static_cast<double>(bias[channel]));
      }
    }
    return absl::OkStatus();
  });
}

// Over X as [N, groups, channels, positions], normalized along the last two.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Shape& x = f.input_type(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Groups g, GroupsOf(f.attrs(), x));
  const Shape view{g.batch, g.groups, g.channels, g.positions};
  const int64_t normalized[] = {2, 3}, summed[] = {0, 3};
  const Term dy = Reshape(f.output_grad(0), view);
  const Standardized s = Standardize(Reshape(f.input(0), view), normalized,
                                     f.attrs().Float("epsilon", kNormalizationEpsilon));
  if (f.wants(0)) {
    const Term scale = Reshape(f.input(1), {g.groups, g.channels, 1});
    f.set_grad(0, Reshape(StandardizeGrad(s, dy * scale, normalized), x));
  }
  const Shape per_channel{x[1]};
  if (f.wants(1)) f.set_grad(1, Reshape(Sum(dy * s.z, summed, /*keep=*/false), per_channel));
  if (f.wants(2)) f.set_grad(2, Reshape(Sum(dy, summed, /*keep=*/false), per_channel));
  return absl::OkStatus();
}

std::vector<ShardingRule> BatchRule(const NodeQuery& query) {
  if (!Divisible(query.inputs[0]->shape, 0)) return {};
  ShardingRule rule = ReplicateAll(query, "split the batch");
  rule.inputs[0] = rule.outputs[0] = ShardDim(0);
  return {rule};
}

std::vector<ShardingRule> InstanceRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = BatchRule(query);
  if (!Divisible(query.inputs[0]->shape, 1)) return rules;
  ShardingRule rule = ReplicateAll(query, "split channels");
  rule.inputs = {ShardDim(1), ShardDim(0), ShardDim(0)};
  rule.outputs[0] = ShardDim(1);
  rules.push_back(std::move(rule));
  return rules;
}

OpDef Normalization(std::string name, std::string doc, std::vector<std::string> operands) {
  OpDef op = {.name = std::move(name),
              .doc = std::move(doc),
              .outputs = {{.name = operands[3], .same_as = "T"}},
              .attrs = {EpsilonAttr()},
              .traits = {.in_place = {{0, 0}}},
              .fusion = FusionClass::kReduction,
              .infer = Infer,
              .reference = Reference,
              .gradient = Gradient,
              .work = NormalizationWork};
  for (int i = 0; i < 3; ++i) {
    op.inputs.push_back({.name = operands[i],
                         .dtypes = FloatTypes(),
                         .same_as = "T",
                         .doc = i == 0 ? "[N,C,spatial...]" : "[C]"});
  }
  return op;
}

}  // namespace

OpDef GroupNormalizationOp() {
  OpDef op = Normalization("GroupNormalization",
                           "Groups of channels normalized by themselves, scaled and shifted",
                           {"X", "scale", "bias", "Y"});
  op.attrs.push_back({.name = "num_groups", .kind = AttrKind::kInt, .required = true});
  op.attrs.push_back({.name = "stash_type",
                      .kind = AttrKind::kInt,
                      .default_value = int64_t{1},
                      .doc = "ONNX's type for the statistics; they are f64 here"});
  op.sharding = BatchRule;  // groups, an attribute, would have to be cut with the channels
  return op;
}

OpDef InstanceNormalizationOp() {
  OpDef op = Normalization("InstanceNormalization",
                           "Each channel of each image normalized by itself, scaled and shifted",
                           {"input", "scale", "B", "output"});
  op.sharding = InstanceRules;
  return op;
}

}  // namespace millrace
