// comm.AllReduce: every device along the named mesh axes gets the reduction of all their inputs.
// It runs as a Collective of a plan, so there is no kernel here.
#include "ops/comm.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckMeshAxes(c));
  return InferLikeInput(c);
}

// Along a mesh axis other than its own.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  const std::string op = query.attrs.String("op", "sum");
  for (Reduction reduction : kAllReductions) {
    if (ReductionName(reduction) == op) AddPartialRules(query, 0, {&reduction, 1}, rules);
  }
  return rules;
}

}  // namespace

OpDef CommAllReduceOp() {
  OpDef op = CollectiveOp("comm.AllReduce", "The reduction of X over all devices along mesh axes",
                          {MeshAxesAttr(), ReductionAttr()}, CommKind::kAllReduce, Infer);
  op.inputs[0].dtypes = NumericTypes();
  op.traits.in_place = {{0, 0}};
  op.sharding = Rules;
  return op;
}

}  // namespace millrace
