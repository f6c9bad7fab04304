#include "ops/label_loss.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

enum Operand { kScores, kLabels, kWeights, kLossGrad, kLogProbGrad };

bool Has(const std::vector<std::optional<TensorType>>& operands, size_t i) {
  return i < operands.size() && operands[i].has_value();
}

}  // namespace

LabelLoss LabelLossOf(const Attrs& attrs, const Shape& scores) {
  LabelLoss loss;
  const std::string reduction = attrs.String("reduction", "mean");
  loss.reduce = reduction == "none"  ? LabelLoss::Reduce::kNone
                : reduction == "sum" ? LabelLoss::Reduce::kSum
                                     : LabelLoss::Reduce::kMean;
  if (attrs.Find("ignore_index") != nullptr) loss.ignore_index = attrs.Int("ignore_index", 0);
  loss.batch = scores[0];
  loss.classes = scores[1];
  loss.positions = ElementsFrom(scores, 2);
  return loss;
}

absl::Status CheckLabelLoss(const InferContext& c) {
  const Shape& scores = c.input(kScores).shape;
  if (scores.rank() < 2) {
    return BadInputError(StrCat("scores must be [N,C,d...], but have rank ", scores.rank()));
  }
  Shape labels{scores[0]};
  for (int d = 2; d < scores.rank(); ++d) labels.push_back(scores[d]);
  if (c.input(kLabels).shape != labels) {
    return BadInputError(StrCat("labels must be ", ToString(labels), " beside scores of ",
                                ToString(scores), ", but are ", ToString(c.input(kLabels).shape)));
  }
  if (c.has_input(kWeights) && c.input(kWeights).shape != Shape{scores[1]}) {
    return BadInputError(StrCat("weights must be [", scores[1], "], one a class, but are ",
                                ToString(c.input(kWeights).shape)));
  }
  return absl::OkStatus();
}

Shape LossShape(const LabelLoss& loss, const Shape& labels) {
  return loss.reduce == LabelLoss::Reduce::kNone ? labels : Shape{};
}

absl::StatusOr<LabelledSamples> SamplesOf(const LabelLoss& loss, const Tensor& labels,
                                          const Tensor* weights) {
  LabelledSamples samples;
  for (int64_t i = 0; i < labels.num_elements(); ++i) {
    const int64_t label = labels.AsInt64(i);
    const bool ignored = loss.ignore_index == label;
    if (!ignored && (label < 0 || label >= loss.classes)) {
      return BadInputError(
          StrCat("label ", label, " of sample ", i, " is out of range [0,", loss.classes, ")"));
    }
    const double weight = ignored ? 0 : weights == nullptr ? 1 : weights->AsDouble(label);
    samples.labels.push_back(ignored ? -1 : label);
    samples.weights.push_back(weight);
    samples.total_weight += weight;
  }
  return samples;
}

std::vector<double> LossOf(const LabelLoss& loss, const LabelledSamples& samples,
                           const std::vector<double>& log_p) {
  std::vector<double> losses;
  double sum = 0;
  for (size_t i = 0; i < samples.labels.size(); ++i) {
    const bool ignored = samples.labels[i] < 0;
    const auto at = static_cast<int64_t>(i);
    losses.push_back(ignored ? 0
                             : -samples.weights[i] * log_p[loss.ScoreAt(at, samples.labels[i])]);
    sum += losses.back();
  }
  if (loss.reduce == LabelLoss::Reduce::kNone) return losses;
  return {loss.reduce == LabelLoss::Reduce::kSum ? sum : sum / samples.total_weight};
}

LossGradient LossGradientOf(const LabelLoss& loss, const LabelledSamples& samples,
                            const std::vector<double>& log_p, const Tensor* d_loss,
                            bool of_weights) {
  const bool each = loss.reduce == LabelLoss::Reduce::kNone;
  const bool mean = loss.reduce == LabelLoss::Reduce::kMean;
  LossGradient g;
  g.picked.resize(samples.labels.size());
  if (of_weights) g.weights.resize(loss.classes);
  if (d_loss == nullptr) return g;
  // d mean / d w = (-log p - mean) / total weight.
  const double shift = mean ? LossOf(loss, samples, log_p)[0] : 0;
  for (size_t i = 0; i < samples.labels.size(); ++i) {
    if (samples.labels[i] < 0) continue;
    double flow = d_loss->AsDouble(each ? static_cast<int64_t>(i) : 0);
    if (mean) flow /= samples.total_weight;
    const double p = log_p[loss.ScoreAt(static_cast<int64_t>(i), samples.labels[i])];
    g.picked[i] = -samples.weights[i] * flow;
    if (of_weights) g.weights[samples.labels[i]] += (-p - shift) * flow;
  }
  return g;
}

std::vector<AttrSpec> LabelLossAttrs() {
  return {{.name = "ignore_index",
           .kind = AttrKind::kInt,
           .doc = "samples of this label do not count; absent: all count"},
          {.name = "reduction",
           .kind = AttrKind::kString,
           .default_value = "mean",
           .choices = {"none", "sum", "mean"},
           .doc = "mean: the sum divided by the sum of the samples' weights"}};
}

std::vector<OperandSpec> LabelLossInputs(std::string scores, std::string labels,
                                         std::string weights) {
  return {{.name = std::move(scores), .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,d...]"},
          {.name = std::move(labels), .dtypes = IndexTypes(), .doc = "[N,d...], classes"},
          {.name = std::move(weights),
           .dtypes = FloatTypes(),
           .optional = true,
           .same_as = "T",
           .doc = "[C], how much a sample of each class counts; absent: 1"}};
}

OperandSpec LossGradientSpec(std::string name) {
  return {.name = std::move(name), .dtypes = FloatTypes(), .optional = true, .same_as = "T"};
}

absl::Status InferLabelLossGrad(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckLabelLoss(c));
  const TensorType& scores = c.input(kScores);
  const Shape of_loss = LossShape(LabelLossOf(c.attrs(), scores.shape), c.input(kLabels).shape);
  if (c.has_input(kLossGrad) && c.input(kLossGrad).shape != of_loss) {
    return BadInputError(StrCat("dLoss must be ", ToString(of_loss), ", but is ",
                                ToString(c.input(kLossGrad).shape)));
  }
  if (c.has_input(kLogProbGrad) && c.input(kLogProbGrad).shape != scores.shape) {
    return BadInputError(StrCat("dLogProb must be ", ToString(scores.shape), ", but is ",
                                ToString(c.input(kLogProbGrad).shape)));
  }
  c.set_output(0, scores);
  c.set_output(1, {scores.dtype, {scores.shape[1]}});
  return absl::OkStatus();
}

absl::Status LabelLossGradient(GradientContext& c, std::string_view op) {
  Forward f(c);
  Attrs attrs = f.attrs();
  const LabelLoss loss = LabelLossOf(attrs, f.input_type(kScores).shape);
  std::vector<ValueId> operands = {f.input(kScores).id, f.input(kLabels).id,
                                   f.has_input(kWeights) ? f.input(kWeights).id : ValueId()};
  const bool plain_mean = loss.reduce == LabelLoss::Reduce::kMean &&
                          !loss.ignore_index.has_value() && !f.has_input(kWeights);
  if (f.has_output_grad(0) && plain_mean) {
    attrs.Set("reduction", std::string("sum"));
    const auto samples = static_cast<double>(std::max<int64_t>(1, loss.samples()));
    operands.push_back((f.output_grad(0) * (1 / samples)).id);
  } else {
    operands.push_back(f.has_output_grad(0) ? f.output_grad(0).id : ValueId());
  }
  if (f.has_output_grad(1)) operands.push_back(f.output_grad(1).id);
  const Node& node = c.builder.AddNode(op, operands, attrs, "", f.wants(kWeights) ? 2 : 1);
  const std::vector<ValueId> grads = node.outputs;
  if (f.wants(kScores)) f.set_grad(kScores, {&c.builder, grads[0]});
  if (f.wants(kWeights)) f.set_grad(kWeights, {&c.builder, grads[1]});
  return absl::OkStatus();
}

std::vector<ShardingRule> LabelLossRules(const NodeQuery& query) {
  const Shape &scores = query.inputs[kScores]->shape, &labels = query.inputs[kLabels]->shape;
  const LabelLoss loss = LabelLossOf(query.attrs, scores);
  const bool weighted = loss.ignore_index.has_value() || Has(query.inputs, kWeights);
  std::vector<ShardingRule> rules;
  if (loss.reduce == LabelLoss::Reduce::kMean && weighted && Has(query.outputs, 0)) return rules;
  for (int d = 0; d < labels.rank(); ++d) {
    if (!Divisible(labels, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d, " of the labels"));
    const AxisSharding of_scores = ShardDim(d == 0 ? 0 : d + 1);
    rule.inputs[kScores] = of_scores;
    rule.inputs[kLabels] = ShardDim(d);
    rule.outputs[0] = loss.reduce == LabelLoss::Reduce::kNone  ? ShardDim(d)
                      : loss.reduce == LabelLoss::Reduce::kSum ? Partial(Reduction::kSum)
                                                               : Partial(Reduction::kMean);
    if (query.outputs.size() > 1) rule.outputs[1] = of_scores;
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<ShardingRule> LabelLossGradRules(const NodeQuery& query) {
  const Shape &scores = query.inputs[kScores]->shape, &labels = query.inputs[kLabels]->shape;
  const LabelLoss loss = LabelLossOf(query.attrs, scores);
  std::vector<ShardingRule> rules;
  // A part knows neither the sum of all weights nor the mean.
  if (loss.reduce == LabelLoss::Reduce::kMean && Has(query.inputs, kLossGrad)) return rules;
  for (int d = 0; d < labels.rank(); ++d) {
    if (!Divisible(labels, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d, " of the labels"));
    const AxisSharding of_scores = ShardDim(d == 0 ? 0 : d + 1);
    rule.inputs[kScores] = rule.outputs[0] = of_scores;
    rule.inputs[kLabels] = ShardDim(d);
    if (Has(query.inputs, kLossGrad) && loss.reduce == LabelLoss::Reduce::kNone) {
      rule.inputs[kLossGrad] = ShardDim(d);
    }
    if (Has(query.inputs, kLogProbGrad)) rule.inputs[kLogProbGrad] = of_scores;
    if (query.outputs.size() > 1) rule.outputs[1] = Partial(Reduction::kSum);
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Of a softmax, for each score: compare, subtract, exp, add, subtract.
Work LabelLossWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 5 * static_cast<double>(NumElements(query.inputs[kScores]->shape));
  return work;
}

}  // namespace millrace
