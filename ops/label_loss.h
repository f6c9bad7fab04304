// Losses whose target is a class for each sample: scores or log-probabilities [N,C,d...] and labels
// [N,d...]. With a weight per class, a sample counts by its class's weight; samples labelled
// `ignore_index` do not count.
//   none: -w log p[label], 0 where ignored; sum: of these; mean: the sum by the sum of weights
#ifndef MILLRACE_OPS_LABEL_LOSS_H_
#define MILLRACE_OPS_LABEL_LOSS_H_

#include <optional>
#include <vector>

#include "ops/gradient.h"
#include "ops/op_def.h"

namespace millrace {

struct LabelLoss {
  enum class Reduce : uint8_t { kNone, kSum, kMean };
  Reduce reduce = Reduce::kMean;
  std::optional<int64_t> ignore_index;
  int64_t batch = 0, classes = 0, positions = 1;

  int64_t samples() const { return batch * positions; }
  // Where the score of a sample for a class is.
  int64_t ScoreAt(int64_t sample, int64_t label) const {
    return (sample / positions * classes + label) * positions + sample % positions;
  }
};
LabelLoss LabelLossOf(const Attrs& attrs, const Shape& scores);

// Operands are scores, labels and, optional, weights.
absl::Status CheckLabelLoss(const InferContext& c);
Shape LossShape(const LabelLoss& loss, const Shape& labels);

// Labels and weights of the samples.
struct LabelledSamples {
  std::vector<int64_t> labels;  // -1: ignored
  std::vector<double> weights;  // 0 where ignored
  double total_weight = 0;
};
// BadInputError: "label 7 of sample 3 is out of range [0,5)".
absl::StatusOr<LabelledSamples> SamplesOf(const LabelLoss& loss, const Tensor& labels,
                                          const Tensor* weights);

// The loss, by element where it is not reduced. `log_p`: log-probabilities as f64.
std::vector<double> LossOf(const LabelLoss& loss, const LabelledSamples& samples,
                           const std::vector<double>& log_p);
// What flows back when `d_loss` (nullptr: 0) flows back to the loss: to each sample's log p[label],
// and, `of_weights`, to each class's weight.
struct LossGradient {
  std::vector<double> picked, weights;
};
LossGradient LossGradientOf(const LabelLoss& loss, const LabelledSamples& samples,
                            const std::vector<double>& log_p, const Tensor* d_loss,
                            bool of_weights);

std::vector<AttrSpec> LabelLossAttrs();
std::vector<OperandSpec> LabelLossInputs(std::string scores, std::string labels,
                                         std::string weights);

// The gradient ops have these operands, and d_loss and, if there is such a result, d_log_p. Their
// results are the gradients of the scores and of the weights.
OperandSpec LossGradientSpec(std::string name);
absl::Status InferLabelLossGrad(InferContext& c);
// Appends the gradient op. A plain mean is the sum divided by the number of samples: as such its
// gradient can be computed for parts of the batch.
absl::Status LabelLossGradient(GradientContext& c, std::string_view op);

// Every dim of the labels can be cut where that leaves the loss itself, a sum, or a mean of the
// parts'. Of the losses; and of their gradients, whose operands are those and d_loss, d_log_p.
std::vector<ShardingRule> LabelLossRules(const NodeQuery& query);
std::vector<ShardingRule> LabelLossGradRules(const NodeQuery& query);
Work LabelLossWork(const NodeQuery& query);

}  // namespace millrace

#endif  // MILLRACE_OPS_LABEL_LOSS_H_
