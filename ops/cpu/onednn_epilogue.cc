#include "ops/cpu/onednn_epilogue.h"

#include <algorithm>

namespace millrace {
namespace {

dnnl::algorithm AlgorithmOf(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::kLinear:
      return dnnl::algorithm::eltwise_linear;
    case EpilogueOp::kRelu:
      return dnnl::algorithm::eltwise_relu;
    case EpilogueOp::kElu:
      return dnnl::algorithm::eltwise_elu;
    case EpilogueOp::kClip:
      return dnnl::algorithm::eltwise_clip;
    case EpilogueOp::kSwish:
      return dnnl::algorithm::eltwise_swish;
    case EpilogueOp::kHardSwish:
      return dnnl::algorithm::eltwise_hardswish;
    case EpilogueOp::kTanh:
      return dnnl::algorithm::eltwise_tanh;
    case EpilogueOp::kSigmoid:
      return dnnl::algorithm::eltwise_logistic;
    case EpilogueOp::kGelu:
      return dnnl::algorithm::eltwise_gelu_erf;
    case EpilogueOp::kGeluTanh:
      return dnnl::algorithm::eltwise_gelu_tanh;
    case EpilogueOp::kAbs:
      return dnnl::algorithm::eltwise_abs;
    case EpilogueOp::kSqrt:
      return dnnl::algorithm::eltwise_sqrt;
    case EpilogueOp::kAdd:
      return dnnl::algorithm::binary_add;
    case EpilogueOp::kSub:
      return dnnl::algorithm::binary_sub;
    case EpilogueOp::kMul:
      return dnnl::algorithm::binary_mul;
    case EpilogueOp::kDiv:
      return dnnl::algorithm::binary_div;
    case EpilogueOp::kSum:
      break;
  }
  return dnnl::algorithm::undef;
}

}  // namespace

bool ArePostOps(const EpiloguePlan& plan) {
  std::vector<EpilogueOp> functions;
  for (const EpilogueStep& step : plan.steps) {
    if (step.operand >= 0) continue;
    if (std::ranges::count(functions, step.op) > 0) return false;
    functions.push_back(step.op);
  }
  return true;
}

dnnl::primitive_attr AttrFor(const EpiloguePlan& plan) {
  dnnl::post_ops ops;
  for (const EpilogueStep& step : plan.steps) {
    if (step.op == EpilogueOp::kSum) {
      ops.append_sum(1);
    } else if (step.operand >= 0) {
      ops.append_binary(AlgorithmOf(step.op),
                        PlainDesc(ToDnnlDims(plan.operand_shapes[step.operand])));
    } else {
      ops.append_eltwise(1, AlgorithmOf(step.op), step.alpha, step.beta);
    }
  }
  dnnl::primitive_attr attr = UserScratchpad();
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace millrace
