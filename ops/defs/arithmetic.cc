// Add, Sub, Mul, Div: elementwise, with broadcasting. Integers wrap around; an integer divided by
// zero is 0, and the most negative one divided by -1 is itself.
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

template <auto kFunction>
absl::Status Wrapping(const ReferenceContext& c) {
  return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kFunction, T, T, ComputeType<T>>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status DivReference(const ReferenceContext& c) {
  return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kDivide, T, T>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

// Sums and differences of partial sums are partial sums.
std::vector<ShardingRule> AdditiveRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  for (Reduction reduction : kLinearReductions) {
    ShardingRule rule = ReplicateAll(query, StrCat("keep both partial ", ReductionName(reduction)));
    rule.inputs = {Partial(reduction), Partial(reduction)};
    rule.outputs = {Partial(reduction)};
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<ShardingRule> MulRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  AddPartialRules(query, 0, kLinearReductions, rules);
  AddPartialRules(query, 1, kLinearReductions, rules);
  return rules;
}

// Only floats divide linearly: 1/2 + 1/2 is 0 in integers.
std::vector<ShardingRule> DivRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  if (query.inputs[0].has_value() && IsFloat(query.inputs[0]->dtype)) {
    AddPartialRules(query, 0, kLinearReductions, rules);
  }
  return rules;
}

// Gives operand i the gradient `grad`, which has the result's shape.
void SetGrad(Forward& f, int i, const Term& grad) {
  f.set_grad(i, SumTo(grad, f.output_type(0).shape, f.input_type(i).shape));
}

absl::Status AddGradient(GradientContext& c) {
  Forward f(c);
  const Term dy = f.output_grad(0);
  if (f.wants(0)) SetGrad(f, 0, dy);
  if (f.wants(1)) SetGrad(f, 1, dy);
  return absl::OkStatus();
}

absl::Status SubGradient(GradientContext& c) {
  Forward f(c);
  const Term dy = f.output_grad(0);
  if (f.wants(0)) SetGrad(f, 0, dy);
  if (f.wants(1)) SetGrad(f, 1, -dy);
  return absl::OkStatus();
}

absl::Status MulGradient(GradientContext& c) {
  Forward f(c);
  const Term dy = f.output_grad(0);
  if (f.wants(0)) SetGrad(f, 0, dy * f.input(1));
  if (f.wants(1)) SetGrad(f, 1, dy * f.input(0));
  return absl::OkStatus();
}

absl::Status DivGradient(GradientContext& c) {
  Forward f(c);
  const Term da = f.output_grad(0) / f.input(1);
  if (f.wants(0)) SetGrad(f, 0, da);
  if (f.wants(1)) SetGrad(f, 1, -(da * f.output(0)));
  return absl::OkStatus();
}

OpDef Arithmetic(std::string name, std::string doc, std::string scalar_op) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "A", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "B", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "C", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}, {0, 1}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = std::move(scalar_op),
          .infer = InferBroadcast};
}

}  // namespace

OpDef AddOp() {
  OpDef op = Arithmetic("Add", "A + B, broadcast", "add");
  op.reference = Wrapping<kAdd>;
  op.gradient = AddGradient;
  op.sharding = AdditiveRules;
  return op;
}

OpDef SubOp() {
  OpDef op = Arithmetic("Sub", "A - B, broadcast", "sub");
  op.reference = Wrapping<kSub>;
  op.gradient = SubGradient;
  op.sharding = AdditiveRules;
  return op;
}

OpDef MulOp() {
  OpDef op = Arithmetic("Mul", "A * B, broadcast", "mul");
  op.reference = Wrapping<kMul>;
  op.gradient = MulGradient;
  op.sharding = MulRules;
  return op;
}

OpDef DivOp() {
  OpDef op = Arithmetic("Div", "A / B, broadcast; an integer divided by zero is 0", "div");
  op.reference = DivReference;
  op.gradient = DivGradient;
  op.sharding = DivRules;
  return op;
}

}  // namespace millrace
