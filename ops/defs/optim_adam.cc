// optim.Adam (Kingma and Ba, 2015), optim.AdamW (Loshchilov and Hutter, 2019): with t = step + 1,
//   m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g^2,
//   param -= learning rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
// Weight decay is added to g in Adam; in AdamW param first shrinks by learning rate * weight_decay.
#include <cmath>

#include "ops/optimizer.h"

namespace millrace {
namespace {

constexpr int kM = 4;  // m, then v

absl::Status Infer(InferContext& c) { return InferOptimizer(c, kM); }

absl::Status Run(const ReferenceContext& c, bool decoupled) {
  const double rate = c.inputs[kLearningRate].AsDouble(0);
  const double beta1 = c.attrs.Float("beta1", 0.9), beta2 = c.attrs.Float("beta2", 0.999);
  const double epsilon = c.attrs.Float("epsilon", 1e-8), decay = c.attrs.Float("weight_decay", 0);
  const double t = static_cast<double>(c.inputs[kStep].AsInt64(0)) + 1;
  const double bias1 = 1 - std::pow(beta1, t), bias2 = 1 - std::pow(beta2, t);
  return RunOptimizer(c, kM, [&](OptimizerElement& e) {
    const double g = decoupled ? e.grad : e.grad + decay * e.param;
    if (decoupled) e.param -= rate * decay * e.param;
    auto& [m, v, unused] = e.states;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    e.param -= rate * (m / bias1) / (std::sqrt(v / bias2) + epsilon);
  });
}

absl::Status AdamReference(const ReferenceContext& c) { return Run(c, /*decoupled=*/false); }
absl::Status AdamWReference(const ReferenceContext& c) { return Run(c, /*decoupled=*/true); }

Work AdamWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 16 * static_cast<double>(NumElements(query.inputs[kParam]->shape));
  return work;
}

OpDef AdamLike(std::string name, std::string doc, double weight_decay, std::string of_decay) {
  OpDef op = OptimizerOp(
      std::move(name), std::move(doc), /*has_step=*/true,
      {{"m", "the moving mean of gradients"}, {"v", "the moving mean of squared gradients"}});
  op.attrs = {OptimizerNumber("beta1", 0.9, "how much of m stays"),
              OptimizerNumber("beta2", 0.999, "how much of v stays"),
              OptimizerNumber("epsilon", 1e-8, "added to the root"),
              OptimizerNumber("weight_decay", weight_decay, std::move(of_decay))};
  op.infer = Infer;
  op.work = AdamWork;
  return op;
}

}  // namespace

OpDef OptimAdamOp() {
  OpDef op = AdamLike("optim.Adam", "Steps by moving means of gradients and their squares", 0,
                      "times param, added to grad");
  op.reference = AdamReference;
  return op;
}

OpDef OptimAdamWOp() {
  OpDef op = AdamLike("optim.AdamW", "Adam with weight decay of its own", 0.01,
                      "times learning rate and param, subtracted from it");
  op.reference = AdamWReference;
  return op;
}

}  // namespace millrace
