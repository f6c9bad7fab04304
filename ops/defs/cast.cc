// Cast and CastLike. What is converted to what: ConvertTo in ops/reference_dispatch.h.
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

std::vector<std::string> AllTypeNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumDTypes; ++i) names.emplace_back(DTypeName(static_cast<DType>(i)));
  return names;
}

absl::Status Infer(InferContext& c) {
  const std::optional<DType> to = ParseDType(c.attrs().String("to", ""));
  MILLRACE_CHECK(to.has_value());  // one of the choices
  c.set_output(0, {*to, c.input(0).shape});
  return absl::OkStatus();
}

absl::Status InferLike(InferContext& c) {
  c.set_output(0, {c.input(1).dtype, c.input(0).shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  return VisitAll(c.inputs[0].dtype(), [&](auto from_tag) {
    return VisitAll(c.outputs[0].dtype(), [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      const std::span<const From> x = c.inputs[0].data<From>();
      const std::span<To> y = c.outputs[0].mutable_data<To>();
      for (size_t i = 0; i < y.size(); ++i) y[i] = ConvertTo<To>(x[i]);
      return absl::OkStatus();
    });
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0) || !IsFloat(f.input_type(0).dtype) || !IsFloat(f.output_type(0).dtype)) {
    return absl::OkStatus();  // what integers stand in between is constant
  }
  f.set_grad(0, CastTo(f.output_grad(0), f.input_type(0).dtype));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  for (ShardingRule& rule : rules) {
    if (rule.inputs.size() > 1) rule.inputs[1] = Replicate();  // only its dtype matters
  }
  if (IsFloat(query.inputs[0]->dtype) && IsFloat(query.outputs[0]->dtype)) {
    AddPartialRules(query, 0, kLinearReductions, rules);
  }
  return rules;
}

OpDef Converting(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "input"}},
          .outputs = {{.name = "output"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = "cast",
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace

OpDef CastOp() {
  OpDef op = Converting("Cast", "The input in another element type");
  op.attrs = {{.name = "to",
               .kind = AttrKind::kString,
               .required = true,
               .choices = AllTypeNames(),
               .doc = "the element type of the result"}};
  return op;
}

OpDef CastLikeOp() {
  OpDef op = Converting("CastLike", "The input in the element type of another tensor");
  op.tier = 2;
  op.inputs.push_back({.name = "target_type", .doc = "only its element type matters"});
  op.type_only_inputs = {1};
  op.scalar_op = "";
  op.infer = InferLike;
  return op;
}

}  // namespace millrace
