#include <cstring>

#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Reference(const ReferenceContext& c) {
  std::memmove(c.outputs[0].mutable_bytes(), c.inputs[0].bytes(), c.inputs[0].size_bytes());
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, f.output_grad(0));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

}  // namespace

OpDef IdentityOp() {
  return {.name = "Identity",
          .doc = "The input, unchanged",
          .inputs = {{.name = "input", .same_as = "T"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}, .view = ViewKind::kWhole},
          .fusion = FusionClass::kShape,
          .infer = InferLikeInput,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
