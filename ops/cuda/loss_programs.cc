// Losses of labels and their gradients (ops/label_loss.h) as programs over [samples, classes,
// positions]: a score is the label's where the index along the classes is the label. A label that
// is no class gives NaN, since a kernel cannot refuse it.
#include <cmath>

#include "ops/cuda/step_writer.h"
#include "ops/kernel_query.h"
#include "ops/label_loss.h"

namespace millrace {
namespace {

enum Operand : size_t { kScores, kLabels, kWeights, kLossGrad, kLogProbGrad };

ScalarTerm EqualTo(const ScalarTerm& a, const ScalarTerm& b) {
  return ScalarBinary(ScalarOp::kEqual, a, b);
}

class LossSteps {
 public:
  explicit LossSteps(const NodeQuery& query)
      : query_(query),
        loss_(LabelLossOf(query.attrs, query.inputs[kScores]->shape)),
        wide_(WideFloat(query.inputs[kScores]->dtype)),
        is_softmax_(query.op.ends_with("SoftmaxCrossEntropyLoss")) {}

  std::optional<ProgramSteps> Loss() {
    if (HasOutput(query_, 0)) {
      if (loss_.reduce == LabelLoss::Reduce::kNone) {
        AddSamples(OutputParam(query_, 0), query_.outputs[0]->dtype, {});
      } else {
        const CudaParam losses = Scratch(), weights = Scratch();
        AddSamples(losses, wide_, weights);
        AddReduction(losses, weights);
      }
    }
    if (HasOutput(query_, 1)) AddLogProbabilities();
    return std::move(steps_);
  }

  std::optional<ProgramSteps> Gradient() {
    if (HasOutput(query_, 1) || !HasOutput(query_, 0)) return std::nullopt;  // of the weights
    CudaParam total;
    const bool mean = loss_.reduce == LabelLoss::Reduce::kMean && HasInput(query_, kLossGrad);
    if (mean) total = AddTotalWeight();
    StepWriter w(query_, Dims());
    const ScalarTerm hit = Hit(w);
    ScalarTerm q = w.Number(wide_, 0);
    if (HasInput(query_, kLossGrad)) {
      const bool each = loss_.reduce == LabelLoss::Reduce::kNone;
      ScalarTerm flow =
          w.LoadWide(kLossGrad, each ? SampleStrides() : std::vector<int64_t>{0, 0, 0});
      if (mean) flow = flow / Readable(w, total, {0, 0, 0});
      q = Select(hit, w.Number(wide_, 0) - WeightAtHit(w) * flow, q);
    }
    if (HasInput(query_, kLogProbGrad)) q = q + w.LoadWide(kLogProbGrad, ScoreStrides());
    if (is_softmax_) {
      const ScalarTerm p = ScalarUnary(ScalarOp::kExp, LogProbability(w));
      q = q - p * RowSum(q);
    }
    w.Store(0, q, ScoreStrides());
    steps_.steps.push_back(w.Take());
    return std::move(steps_);
  }

 private:
  std::vector<IndexDim> Dims() const {
    return {OuterDim(loss_.batch), ReduceDim(loss_.classes), OuterDim(loss_.positions)};
  }
  std::vector<int64_t> ScoreStrides() const {
    return {loss_.classes * loss_.positions, loss_.positions, 1};
  }
  std::vector<int64_t> SampleStrides() const { return {loss_.positions, 0, 1}; }

  // Room for a number of each sample.
  CudaParam Scratch() {
    const int64_t bytes = loss_.samples() * SizeOf(wide_), at = steps_.scratch_bytes;
    steps_.scratch_bytes += (bytes + 255) / 256 * 256;
    return ScratchParam(at, bytes, false, true);
  }
  ScalarTerm Readable(StepWriter& w, CudaParam from, std::vector<int64_t> strides) const {
    std::swap(from.reads, from.writes);
    return w.LoadFrom(from, wide_, std::move(strides));
  }

  ScalarTerm Label(StepWriter& w) const {
    return CastTo(w.Load(kLabels, SampleStrides()), DType::kI64);
  }
  // Whether the point is that of the sample's label, and counts.
  ScalarTerm Hit(StepWriter& w) const {
    const ScalarTerm label = Label(w), hit = EqualTo(w.Index(1), label);
    if (!loss_.ignore_index.has_value()) return hit;
    const ScalarTerm counts = ScalarUnary(ScalarOp::kNot, Ignored(w, label));
    return ScalarBinary(ScalarOp::kAnd, hit, counts);
  }
  ScalarTerm Ignored(StepWriter& w, const ScalarTerm& label) const {
    return EqualTo(label, w.Number(DType::kI64, static_cast<double>(*loss_.ignore_index)));
  }
  // Of the class of the point.
  ScalarTerm WeightAtHit(StepWriter& w) const {
    return HasInput(query_, kWeights) ? w.LoadWide(kWeights, {0, 1, 0}) : w.Number(wide_, 1);
  }
  ScalarTerm LogProbability(StepWriter& w) const {
    const ScalarTerm x = w.LoadWide(kScores, ScoreStrides());
    if (!is_softmax_) return x;
    const ScalarTerm shifted = x - RowMax(x);
    const ScalarTerm sum = RowSum(ScalarUnary(ScalarOp::kExp, shifted));
    return shifted - ScalarUnary(ScalarOp::kLog, sum);
  }

  // The loss and, where wanted, the weight of each sample.
  void AddSamples(const CudaParam& losses, DType dtype, const std::optional<CudaParam>& weights) {
    StepWriter w(query_, Dims());
    const ScalarTerm hit = Hit(w), zero = w.Number(wide_, 0);
    const ScalarTerm weight = RowSum(Select(hit, WeightAtHit(w), zero));
    const ScalarTerm picked = RowSum(Select(hit, LogProbability(w), zero));
    ScalarTerm known = 0.5 < RowSum(CastTo(hit, wide_));
    if (loss_.ignore_index.has_value()) {
      known = ScalarBinary(ScalarOp::kOr, known, Ignored(w, Label(w)));
    }
    const ScalarTerm loss = Select(known, zero - weight * picked, w.Number(wide_, NAN));
    w.StoreTo(losses, CastTo(loss, dtype), SampleStrides());
    if (weights.has_value()) w.StoreTo(*weights, weight, SampleStrides());
    steps_.steps.push_back(w.Take());
  }

  void AddReduction(const CudaParam& losses, const CudaParam& weights) {
    StepWriter w(query_, {ReduceDim(loss_.samples())});
    ScalarTerm sum = RowSum(Readable(w, losses, {1}));
    if (loss_.reduce == LabelLoss::Reduce::kMean) sum = sum / RowSum(Readable(w, weights, {1}));
    w.Store(0, sum, {0});
    steps_.steps.push_back(w.Take());
  }

  void AddLogProbabilities() {
    StepWriter w(query_, Dims());
    w.Store(1, LogProbability(w), ScoreStrides());
    steps_.steps.push_back(w.Take());
  }

  // The sum of the samples' weights, in scratch.
  CudaParam AddTotalWeight() {
    const CudaParam weights = Scratch();
    StepWriter w(query_, Dims());
    w.StoreTo(weights, RowSum(Select(Hit(w), WeightAtHit(w), w.Number(wide_, 0))), SampleStrides());
    steps_.steps.push_back(w.Take());
    const CudaParam total = Scratch();
    StepWriter sum(query_, {ReduceDim(loss_.samples())});
    sum.StoreTo(total, RowSum(Readable(sum, weights, {1})), {0});
    steps_.steps.push_back(sum.Take());
    return total;
  }

  const NodeQuery& query_;
  const LabelLoss loss_;
  const DType wide_;
  const bool is_softmax_;
  ProgramSteps steps_;
};

}  // namespace

std::optional<ProgramSteps> LossProgramSteps(const NodeQuery& query) {
  const std::string& op = query.op;
  if (op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss") {
    return LossSteps(query).Loss();
  }
  if (op == "grad.SoftmaxCrossEntropyLoss" || op == "grad.NegativeLogLikelihoodLoss") {
    return LossSteps(query).Gradient();
  }
  return std::nullopt;
}

}  // namespace millrace
