// What ops that keep the elements and their order share (Reshape, Flatten): kernel, gradient, and
// which cuts of the input are cuts of the result.
#ifndef MILLRACE_OPS_RESHAPING_H_
#define MILLRACE_OPS_RESHAPING_H_

#include "ops/op_def.h"

namespace millrace {

absl::Status ReshapeReference(const ReferenceContext& context);
absl::Status ReshapeGradient(GradientContext& context);
std::vector<ShardingRule> ReshapeRules(const NodeQuery& query);

}  // namespace millrace

#endif  // MILLRACE_OPS_RESHAPING_H_
