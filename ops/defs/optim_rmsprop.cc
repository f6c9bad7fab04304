// optim.RMSProp: g = grad + weight_decay * param; s = alpha * s + (1 - alpha) * g^2, and with
// `centered` a likewise of g; step = g / (sqrt(s - a^2) + epsilon); param -= learning rate * step,
// or with momentum v = momentum * v + step, param -= learning rate * v.
#include <cmath>

#include "ops/optimizer.h"

namespace millrace {
namespace {

constexpr int kSquares = 3, kVelocity = 4, kMean = 5;

absl::Status Infer(InferContext& c) {
  const bool momentum = c.attrs().Float("momentum", 0) != 0;
  const bool centered = c.attrs().Bool("centered", false);
  MILLRACE_RETURN_IF_ERROR(CheckState(c, kVelocity, momentum, "velocity",
                                      momentum ? "there is momentum" : "momentum is 0"));
  MILLRACE_RETURN_IF_ERROR(
      CheckState(c, kMean, centered, "mean", centered ? "'centered' needs it" : "not 'centered'"));
  return InferOptimizer(c, kSquares);
}

absl::Status Reference(const ReferenceContext& c) {
  const double rate = c.inputs[kLearningRate].AsDouble(0);
  const double alpha = c.attrs.Float("alpha", 0.99), epsilon = c.attrs.Float("epsilon", 1e-8);
  const double momentum = c.attrs.Float("momentum", 0), decay = c.attrs.Float("weight_decay", 0);
  const bool centered = c.attrs.Bool("centered", false);
  return RunOptimizer(c, kSquares, [&](OptimizerElement& e) {
    const double g = e.grad + decay * e.param;
    auto& [squares, velocity, mean] = e.states;
    squares = alpha * squares + (1 - alpha) * g * g;
    mean = centered ? alpha * mean + (1 - alpha) * g : 0;
    const double variance = std::max(0.0, squares - mean * mean);
    velocity = momentum * velocity + g / (std::sqrt(variance) + epsilon);
    e.param -= rate * velocity;
  });
}

Work RmsPropWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 15 * static_cast<double>(NumElements(query.inputs[kParam]->shape));
  return work;
}

}  // namespace

OpDef OptimRMSPropOp() {
  OpDef op = OptimizerOp("optim.RMSProp", "Steps by the root of a moving mean of squared gradients",
                         /*has_step=*/false,
                         {{"squares", "the moving mean of squared gradients"},
                          {"velocity", "with momentum only", /*optional=*/true},
                          {"mean", "of gradients; with centered only", /*optional=*/true}});
  op.attrs = {OptimizerNumber("alpha", 0.99, "how much of the moving means stays"),
              {.name = "centered",
               .kind = AttrKind::kBool,
               .default_value = false,
               .doc = "by the deviation rather than the root mean square"},
              OptimizerNumber("epsilon", 1e-8, "added to the root"),
              OptimizerNumber("momentum", 0, "how much of the velocity stays"),
              OptimizerNumber("weight_decay", 0, "times param, added to grad")};
  op.infer = Infer;
  op.reference = Reference;
  op.work = RmsPropWork;
  return op;
}

}  // namespace millrace
