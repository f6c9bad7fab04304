// optim.SGD: g = grad + weight_decay * param; v = momentum * v + g; param -= learning rate * v, or
// with nesterov * (g + momentum * v). Without momentum there is no v: param -= learning rate * g.
#include "ops/optimizer.h"

namespace millrace {
namespace {

constexpr int kVelocity = 3;

absl::Status Infer(InferContext& c) {
  const double momentum = c.attrs().Float("momentum", 0);
  MILLRACE_RETURN_IF_ERROR(CheckState(c, kVelocity, momentum != 0, "velocity",
                                      momentum != 0 ? "there is momentum" : "momentum is 0"));
  if (c.attrs().Bool("nesterov", false) && momentum == 0) {
    return BadInputError("'nesterov' needs momentum");
  }
  return InferOptimizer(c, kVelocity);
}

absl::Status Reference(const ReferenceContext& c) {
  const double rate = c.inputs[kLearningRate].AsDouble(0);
  const double momentum = c.attrs.Float("momentum", 0), decay = c.attrs.Float("weight_decay", 0);
  const bool nesterov = c.attrs.Bool("nesterov", false);
  return RunOptimizer(c, kVelocity, [&](OptimizerElement& e) {
    const double g = e.grad + decay * e.param;
    double& velocity = e.states[0];
    velocity = momentum * velocity + g;
    e.param -= rate * (nesterov ? g + momentum * velocity : velocity);
  });
}

Work SgdWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 6 * static_cast<double>(NumElements(query.inputs[kParam]->shape));
  return work;
}

}  // namespace

OpDef OptimSGDOp() {
  OpDef op = OptimizerOp("optim.SGD", "Gradient descent with momentum", /*has_step=*/false,
                         {{"velocity", "with momentum only", /*optional=*/true}});
  op.attrs = {OptimizerNumber("momentum", 0, "how much of the velocity stays"),
              {.name = "nesterov",
               .kind = AttrKind::kBool,
               .default_value = false,
               .doc = "look ahead along the velocity"},
              OptimizerNumber("weight_decay", 0, "times param, added to grad")};
  op.infer = Infer;
  op.reference = Reference;
  op.work = SgdWork;
  return op;
}

}  // namespace millrace
