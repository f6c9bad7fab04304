// optim.Adagrad: g = grad + weight_decay * param; sum += g^2;
// param -= learning rate * g / (sqrt(sum) + epsilon).
#include <cmath>

#include "ops/optimizer.h"

namespace millrace {
namespace {

constexpr int kSum = 3;

absl::Status Infer(InferContext& c) { return InferOptimizer(c, kSum); }

absl::Status Reference(const ReferenceContext& c) {
  const double rate = c.inputs[kLearningRate].AsDouble(0);
  const double epsilon = c.attrs.Float("epsilon", 1e-10);
  const double decay = c.attrs.Float("weight_decay", 0);
  return RunOptimizer(c, kSum, [&](OptimizerElement& e) {
    const double g = e.grad + decay * e.param;
    e.states[0] += g * g;
    e.param -= rate * g / (std::sqrt(e.states[0]) + epsilon);
  });
}

Work AdagradWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 9 * static_cast<double>(NumElements(query.inputs[kParam]->shape));
  return work;
}

}  // namespace

OpDef OptimAdagradOp() {
  OpDef op = OptimizerOp("optim.Adagrad", "Steps by the root of all squared gradients so far",
                         /*has_step=*/false, {{"sum", "of squared gradients"}});
  op.attrs = {OptimizerNumber("epsilon", 1e-10, "added to the root"),
              OptimizerNumber("weight_decay", 0, "times param, added to grad")};
  op.infer = Infer;
  op.reference = Reference;
  op.work = AdagradWork;
  return op;
}

}  // namespace millrace
