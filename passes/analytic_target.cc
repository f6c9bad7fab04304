#include "passes/analytic_target.h"

#include "ops/op_def.h"

namespace millrace {

std::vector<KernelVariant> AnalyticTarget::Variants(const NodeQuery& query) const {
  const OpDef* op = FindOp(query.op);
  if (op == nullptr || op->reference == nullptr) return {};
  KernelVariant variant;
  variant.name = "analytic";
  variant.in_layouts.assign(query.inputs.size(), Layout::kStrided);
  variant.out_layouts.assign(query.outputs.size(), Layout::kStrided);
  const Work work = WorkOf(query);
  variant.flops = work.flops;
  variant.bytes = work.bytes;
  return {variant};
}

}  // namespace millrace
