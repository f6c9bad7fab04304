#include "ops/elementwise.h"

#include "ops/sharding.h"

namespace millrace {

absl::Status InferLikeInput(InferContext& context) {
  context.set_output(0, context.input(0));
  return absl::OkStatus();
}

namespace {

absl::Status InferBroadcastOf(InferContext& context, DType dtype) {
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape,
                            BroadcastShapes(context.input(0).shape, context.input(1).shape));
  context.set_output(0, {dtype, shape});
  return absl::OkStatus();
}

}  // namespace

absl::Status InferBroadcast(InferContext& context) {
  return InferBroadcastOf(context, context.input(0).dtype);
}

absl::Status InferComparison(InferContext& context) {
  return InferBroadcastOf(context, DType::kBool);
}

std::vector<ShardingRule> MonotoneRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  AddPartialRules(query, 0, kMonotoneReductions, rules);
  return rules;
}

}  // namespace millrace
