// SoftmaxCrossEntropyLoss: the loss of labels under log p = LogSoftmax(scores) over the classes;
// and its gradient, which computes the softmax again.
#include <cmath>
#include <limits>

#include "ops/doubles.h"
#include "ops/label_loss.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckLabelLoss(c));
  const LabelLoss loss = LabelLossOf(c.attrs(), c.input(0).shape);
  c.set_output(0, {c.input(0).dtype, LossShape(loss, c.input(1).shape)});
  c.set_output(1, c.input(0));
  return absl::OkStatus();
}

std::vector<double> LogSoftmax(const LabelLoss& loss, const Tensor& scores) {
  std::vector<double> log_p(scores.num_elements());
  if (log_p.empty()) return log_p;
  for (int64_t i = 0; i < loss.samples(); ++i) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < loss.classes; ++k) {
      largest = std::max(largest, scores.AsDouble(loss.ScoreAt(i, k)));
    }
    for (int64_t k = 0; k < loss.classes; ++k) {
      sum += std::exp(scores.AsDouble(loss.ScoreAt(i, k)) - largest);
    }
    for (int64_t k = 0; k < loss.classes; ++k) {
      const int64_t at = loss.ScoreAt(i, k);
      log_p[at] = scores.AsDouble(at) - largest - std::log(sum);
    }
  }
  return log_p;
}

absl::Status Reference(const ReferenceContext& c) {
  const LabelLoss loss = LabelLossOf(c.attrs, c.inputs[0].shape());
  const std::vector<double> log_p = LogSoftmax(loss, c.inputs[0]);
  MILLRACE_ASSIGN_OR_RETURN(const LabelledSamples samples,
                            SamplesOf(loss, c.inputs[1], OptionalOperand(c, 2)));
  MILLRACE_RETURN_IF_ERROR(StoreDoubles(LossOf(loss, samples, log_p), c, 0));
  return StoreDoubles(log_p, c, 1);
}

absl::Status Gradient(GradientContext& c) {
  return LabelLossGradient(c, "grad.SoftmaxCrossEntropyLoss");
}

// With q = what flows back to log p: d scores = q - p * (the sum of q over the classes).
absl::Status GradReference(const ReferenceContext& c) {
  const LabelLoss loss = LabelLossOf(c.attrs, c.inputs[0].shape());
  const std::vector<double> log_p = LogSoftmax(loss, c.inputs[0]);
  MILLRACE_ASSIGN_OR_RETURN(const LabelledSamples samples,
                            SamplesOf(loss, c.inputs[1], OptionalOperand(c, 2)));
  const LossGradient g =
      LossGradientOf(loss, samples, log_p, OptionalOperand(c, 3), HasResult(c, 1));
  const Tensor* d_log_p = OptionalOperand(c, 4);
  std::vector<double> q =
      d_log_p != nullptr ? ToDoubles(*d_log_p) : std::vector<double>(log_p.size());
  for (int64_t i = 0; i < static_cast<int64_t>(samples.labels.size()); ++i) {
    if (samples.labels[i] >= 0) q[loss.ScoreAt(i, samples.labels[i])] += g.picked[i];
    double sum = 0;
    for (int64_t k = 0; k < loss.classes; ++k) sum += q[loss.ScoreAt(i, k)];
    for (int64_t k = 0; k < loss.classes; ++k) {
      const int64_t at = loss.ScoreAt(i, k);
      q[at] -= std::exp(log_p[at]) * sum;
    }
  }
  MILLRACE_RETURN_IF_ERROR(StoreDoubles(q, c, 0));
  return StoreDoubles(g.weights, c, 1);
}

}  // namespace

OpDef SoftmaxCrossEntropyLossOp() {
  return {.name = "SoftmaxCrossEntropyLoss",
          .doc = "-log softmax(scores)[label], by class weight, reduced",
          .inputs = LabelLossInputs("scores", "labels", "weights"),
          .outputs = {{.name = "output", .same_as = "T", .doc = "[], or [N,d...]"},
                      {.name = "log_prob",
                       .optional = true,
                       .same_as = "T",
                       .doc = "[N,C,d...], the logarithms of the probabilities"}},
          .attrs = LabelLossAttrs(),
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = LabelLossRules,
          .work = LabelLossWork};
}

// Not differentiable itself.
OpDef GradSoftmaxCrossEntropyLossOp() {
  OpDef op = {.name = "grad.SoftmaxCrossEntropyLoss",
              .doc = "The gradient of SoftmaxCrossEntropyLoss",
              .inputs = LabelLossInputs("scores", "labels", "weights"),
              .outputs = {{.name = "dScores", .same_as = "T"},
                          {.name = "dWeights", .optional = true, .same_as = "T"}},
              .attrs = LabelLossAttrs(),
              .fusion = FusionClass::kReduction,
              .infer = InferLabelLossGrad,
              .reference = GradReference,
              .sharding = LabelLossGradRules,
              .work = LabelLossWork};
  op.inputs.push_back(LossGradientSpec("dLoss"));
  op.inputs.push_back(LossGradientSpec("dLogProb"));
  return op;
}

}  // namespace millrace
