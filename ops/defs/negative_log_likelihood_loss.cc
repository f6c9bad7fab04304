// NegativeLogLikelihoodLoss of log-probabilities, and its gradient.
#include "ops/doubles.h"
#include "ops/label_loss.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckLabelLoss(c));
  const LabelLoss loss = LabelLossOf(c.attrs(), c.input(0).shape);
  c.set_output(0, {c.input(0).dtype, LossShape(loss, c.input(1).shape)});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const LabelLoss loss = LabelLossOf(c.attrs, c.inputs[0].shape());
  MILLRACE_ASSIGN_OR_RETURN(const LabelledSamples samples,
                            SamplesOf(loss, c.inputs[1], OptionalOperand(c, 2)));
  return StoreDoubles(LossOf(loss, samples, ToDoubles(c.inputs[0])), c, 0);
}

absl::Status Gradient(GradientContext& c) {
  return LabelLossGradient(c, "grad.NegativeLogLikelihoodLoss");
}

absl::Status GradReference(const ReferenceContext& c) {
  const LabelLoss loss = LabelLossOf(c.attrs, c.inputs[0].shape());
  MILLRACE_ASSIGN_OR_RETURN(const LabelledSamples samples,
                            SamplesOf(loss, c.inputs[1], OptionalOperand(c, 2)));
  const LossGradient g =
      LossGradientOf(loss, samples, ToDoubles(c.inputs[0]), OptionalOperand(c, 3), HasResult(c, 1));
  std::vector<double> d_input(c.inputs[0].num_elements());
  for (size_t i = 0; i < g.picked.size(); ++i) {
    if (samples.labels[i] < 0) continue;
    d_input[loss.ScoreAt(static_cast<int64_t>(i), samples.labels[i])] = g.picked[i];
  }
  MILLRACE_RETURN_IF_ERROR(StoreDoubles(d_input, c, 0));
  return StoreDoubles(g.weights, c, 1);
}

}  // namespace

OpDef NegativeLogLikelihoodLossOp() {
  return {.name = "NegativeLogLikelihoodLoss",
          .doc = "-input[target], by class weight, reduced",
          .inputs = LabelLossInputs("input", "target", "weight"),
          .outputs = {{.name = "loss", .same_as = "T", .doc = "[], or [N,d...]"}},
          .attrs = LabelLossAttrs(),
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = LabelLossRules};
}

// Not differentiable itself.
OpDef GradNegativeLogLikelihoodLossOp() {
  OpDef op = {.name = "grad.NegativeLogLikelihoodLoss",
              .doc = "The gradient of NegativeLogLikelihoodLoss",
              .inputs = LabelLossInputs("input", "target", "weight"),
              .outputs = {{.name = "dInput", .same_as = "T"},
                          {.name = "dWeight", .optional = true, .same_as = "T"}},
              .attrs = LabelLossAttrs(),
              .infer = InferLabelLossGrad,
              .reference = GradReference,
              .sharding = LabelLossGradRules};
  op.inputs.push_back(LossGradientSpec("dLoss"));
  return op;
}

}  // namespace millrace
