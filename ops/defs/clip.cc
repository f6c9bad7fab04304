// Clip: between min and max, either of which may be omitted; max wins where min is above it. NaN
// stays NaN.
#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  for (int i : {1, 2}) {
    if (c.has_input(i) && NumElements(c.input(i).shape) != 1) {
      return BadInputError(StrCat(i == 1 ? "'min'" : "'max'", " must have one element, but is ",
                                  ToString(c.input(i).shape)));
    }
  }
  return InferLikeInput(c);
}

absl::Status Reference(const ReferenceContext& c) {
  const auto given = [&](size_t i) { return i < c.inputs.size() && c.inputs[i].has_data(); };
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Native = NativeType<T>;
    const std::span<const T> from = c.inputs[0].data<T>();
    const std::span<T> to = c.outputs[0].mutable_data<T>();
    const bool has_min = given(1), has_max = given(2);
    const Native min = has_min ? static_cast<Native>(c.inputs[1].data<T>()[0]) : Native();
    const Native max = has_max ? static_cast<Native>(c.inputs[2].data<T>()[0]) : Native();
    for (size_t i = 0; i < to.size(); ++i) {
      Native x = static_cast<Native>(from[i]);
      if (has_min && x < min) x = min;
      if (has_max && x > max) x = max;
      to[i] = static_cast<T>(x);
    }
    return absl::OkStatus();
  });
}

// Each element's gradient goes to whichever of X, min and max it was taken from.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term x = f.input(0), dy = f.output_grad(0), zero = Scalar(dy, 0);
  const auto bound = [&](int i) {
    return f.input_type(i).shape.rank() == 0 ? f.input(i) : Reshape(f.input(i), {});
  };
  const auto set_bound_grad = [&](int i, const Term& grad) {
    const Term sum = SumTo(grad, f.output_type(0).shape, {});
    f.set_grad(i, f.input_type(i).shape.rank() == 0 ? sum : Reshape(sum, f.input_type(i).shape));
  };
  Term of_x = dy, of_min = zero, raised = x;  // so far; X after min
  if (f.has_input(1)) {
    const Term below = x < bound(1);
    of_min = Select(below, dy, zero);
    of_x = Select(below, zero, dy);
    raised = Select(below, bound(1), x);
  }
  if (f.has_input(2)) {
    const Term above = raised > bound(2);
    of_x = Select(above, zero, of_x);
    if (f.wants(1)) of_min = Select(above, zero, of_min);
    if (f.wants(2)) set_bound_grad(2, Select(above, dy, zero));
  }
  if (f.wants(1)) set_bound_grad(1, of_min);
  if (f.wants(0)) f.set_grad(0, of_x);
  return absl::OkStatus();
}

// The bounds have one element, whatever their rank.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = MonotoneRules(query);
  for (ShardingRule& rule : rules) {
    for (size_t i = 1; i < rule.inputs.size(); ++i) rule.inputs[i] = Replicate();
  }
  return rules;
}

ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
  return Between(x[0], x.size() > 1 ? x[1] : ScalarTerm(), x.size() > 2 ? x[2] : ScalarTerm());
}

}  // namespace

OpDef ClipOp() {
  return {.name = "Clip",
          .doc = "The input, but at least min and at most max",
          .inputs = {{.name = "input", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "min",
                      .dtypes = NumericTypes(),
                      .optional = true,
                      .same_as = "T",
                      .doc = "one element"},
                     {.name = "max",
                      .dtypes = NumericTypes(),
                      .optional = true,
                      .same_as = "T",
                      .doc = "one element"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar = Formula,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
