// Programs over views of an operand. Normalizations: BatchNormalization and its gradient over [N,
// channels, positions], GroupNormalization and InstanceNormalization over [N, groups, channels of
// one, positions]. And what else is a row or a map by its index: reductions that end in a function,
// OneHot, Trilu.
#include <algorithm>
#include <limits>

#include "ops/axes.h"
#include "ops/cuda/step_writer.h"
#include "ops/kernel_query.h"
#include "ops/normalization.h"

namespace millrace {
namespace {

ScalarTerm InverseRoot(const ScalarTerm& variance, double epsilon) {
  return ScalarUnary(ScalarOp::kRsqrt, variance + epsilon);
}

struct RowMoments {
  ScalarTerm centered, mean, variance;
};
RowMoments MomentsOfRow(const ScalarTerm& x, double count) {
  RowMoments m;
  m.mean = RowMean(x, count);
  m.centered = x - m.mean;
  m.variance = RowMean(m.centered * m.centered, count);
  return m;
}

// X as [batch, channels, positions]; a vector is one channel.
class ChannelView {
 public:
  explicit ChannelView(const Shape& x) {
    batch_ = x[0];
    if (x.rank() > 1) {
      channels_ = x[1];
      positions_ = ElementsFrom(x, 2);
    }
  }
  double count() const { return static_cast<double>(batch_ * positions_); }
  std::vector<IndexDim> Dims(bool reduce) const {
    const auto shared = [&](int64_t size) { return reduce ? ReduceDim(size) : OuterDim(size); };
    return {shared(batch_), OuterDim(channels_), shared(positions_)};
  }
  std::vector<int64_t> Elements() const { return {channels_ * positions_, positions_, 1}; }
  static std::vector<int64_t> PerChannel() { return {0, 1, 0}; }

 private:
  int64_t batch_ = 1, channels_ = 1, positions_ = 1;
};

constexpr double kRunningMomentum = 0.9;

ProgramStep BatchNormalizationStep(const NodeQuery& query) {
  const ChannelView view(query.inputs[0]->shape);
  const double epsilon = query.attrs.Float("epsilon", kNormalizationEpsilon);
  const bool training = query.attrs.Bool("training_mode", false);
  StepWriter w(query, view.Dims(training));
  const auto per_channel = [&](size_t i) { return w.LoadWide(i, ChannelView::PerChannel()); };
  const DType wide = WideFloat(query.inputs[0]->dtype);
  const ScalarTerm x = w.LoadWide(0, view.Elements());
  RowMoments m;
  if (training) {
    m = MomentsOfRow(x, view.count());
    const double kept = query.attrs.Float("momentum", kRunningMomentum);
    const auto store_moved = [&](size_t output, size_t given, const ScalarTerm& own) {
      if (!HasOutput(query, output)) return;
      const ScalarTerm from = per_channel(given);
      w.Store(output, kept * from + (1 - kept) * CastTo(own, from.dtype),
              ChannelView::PerChannel());
    };
    store_moved(1, 3, m.mean);
    store_moved(2, 4, m.variance);
  } else {
    m.centered = x - CastTo(per_channel(3), wide);
    m.variance = CastTo(per_channel(4), wide);
  }
  if (HasOutput(query, 0)) {
    const ScalarTerm scale = CastTo(per_channel(1), wide), bias = CastTo(per_channel(2), wide);
    w.Store(0, m.centered * InverseRoot(m.variance, epsilon) * scale + bias, view.Elements());
  }
  return w.Take();
}

// dx = scale r (dy - mean(dy) - z mean(dy z)), d scale = sum(dy z), dB = sum(dy).
ProgramStep BatchNormalizationGradientStep(const NodeQuery& query) {
  const ChannelView view(query.inputs[1]->shape);
  const DType wide = WideFloat(query.inputs[1]->dtype);
  StepWriter w(query, view.Dims(/*reduce=*/true));
  const ScalarTerm dy = w.LoadWide(0, view.Elements()), x = w.LoadWide(1, view.Elements());
  const RowMoments m = MomentsOfRow(x, view.count());
  const ScalarTerm r = InverseRoot(m.variance, query.attrs.Float("epsilon", kNormalizationEpsilon));
  const ScalarTerm z = m.centered * r, sum = RowSum(dy), sum_z = RowSum(dy * z);
  if (HasOutput(query, 0)) {
    const ScalarTerm factor = CastTo(w.LoadWide(2, ChannelView::PerChannel()), wide) * r;
    const ScalarTerm g = dy - (1 / view.count()) * (sum + z * sum_z);
    w.Store(0, factor * g, view.Elements());
  }
  if (HasOutput(query, 1)) w.Store(1, sum_z, ChannelView::PerChannel());
  if (HasOutput(query, 2)) w.Store(2, sum, ChannelView::PerChannel());
  return w.Take();
}

std::optional<ProgramStep> GroupNormalizationStep(const NodeQuery& query) {
  const Shape& x = query.inputs[0]->shape;
  const int64_t groups = query.attrs.Int("num_groups", x[1]);
  if (groups < 1 || x[1] % groups != 0) return std::nullopt;
  const int64_t channels = x[1] / groups, positions = ElementsFrom(x, 2);
  StepWriter w(query,
               {OuterDim(x[0]), OuterDim(groups), ReduceDim(channels), ReduceDim(positions)});
  const std::vector<int64_t> elements = {x[1] * positions, channels * positions, positions, 1};
  const std::vector<int64_t> per_channel = {0, channels, 1, 0};
  const RowMoments m =
      MomentsOfRow(w.LoadWide(0, elements), static_cast<double>(channels * positions));
  const ScalarTerm inverse =
      InverseRoot(m.variance, query.attrs.Float("epsilon", kNormalizationEpsilon));
  const ScalarTerm scale = w.LoadWide(1, per_channel), bias = w.LoadWide(2, per_channel);
  w.Store(0, m.centered * inverse * scale + bias, elements);
  return w.Take();
}

// --- Reductions that end in a function
// -------------------------------------------------------------

// Of floats, over attribute `axes`; all dims without it.
std::optional<ProgramStep> ReductionStep(const NodeQuery& query) {
  const std::string& op = query.op;
  if (op != "ReduceL2" && op != "ReduceLogSum" && op != "ReduceLogSumExp") return std::nullopt;
  const TensorType& in = *query.inputs[0];
  if (!IsFloat(in.dtype)) return std::nullopt;
  std::vector<int64_t> given = query.attrs.Ints("axes");
  if (given.empty()) {
    for (int d = 0; d < in.shape.rank(); ++d) given.push_back(d);
  }
  const absl::StatusOr<std::vector<int>> axes = NormalizeAxes(given, in.shape.rank());
  if (!axes.ok()) return std::nullopt;
  const Shape in_strides = DenseStrides(in.shape);
  std::vector<IndexDim> dims;
  std::vector<int64_t> strides, out_strides(static_cast<size_t>(in.shape.rank()), 0);
  int64_t step = 1;
  for (int d = in.shape.rank(); d-- > 0;) {
    if (std::ranges::find(*axes, d) != axes->end()) continue;
    out_strides[static_cast<size_t>(d)] = step;
    step *= in.shape[d];
  }
  for (int d = 0; d < in.shape.rank(); ++d) {
    const bool gone = std::ranges::find(*axes, d) != axes->end();
    dims.push_back(gone ? ReduceDim(in.shape[d]) : OuterDim(in.shape[d]));
    strides.push_back(in_strides[d]);
  }
  StepWriter w(query, std::move(dims));
  const ScalarTerm x = w.LoadWide(0, std::move(strides));
  ScalarTerm result;
  if (op == "ReduceL2") {
    result = ScalarUnary(ScalarOp::kSqrt, RowSum(x * x));
  } else if (op == "ReduceLogSum") {
    result = ScalarUnary(ScalarOp::kLog, RowSum(x));
  } else {  // relative to the largest, which is the result where it is infinite
    const ScalarTerm largest = RowMax(x);
    const ScalarTerm sum = RowSum(ScalarUnary(ScalarOp::kExp, x - largest));
    const ScalarTerm is_infinite =
        ScalarBinary(ScalarOp::kEqual, ScalarUnary(ScalarOp::kAbs, largest),
                     w.Number(x.dtype, std::numeric_limits<double>::infinity()));
    result = Select(is_infinite, largest, largest + ScalarUnary(ScalarOp::kLog, sum));
  }
  w.Store(0, result, std::move(out_strides));
  return w.Take();
}

// --- Maps by their index
// -----------------------------------------------------------------------------

std::vector<IndexDim> OuterDims(const Shape& shape) {
  std::vector<IndexDim> dims;
  for (const int64_t size : shape) dims.push_back(OuterDim(size));
  return dims;
}

std::vector<int64_t> DenseOf(const Shape& shape) {
  const Shape strides = DenseStrides(shape);
  return {strides.begin(), strides.end()};
}

std::optional<ProgramStep> OneHotStep(const NodeQuery& query) {
  const TensorType &indices = *query.inputs[0], &out = *query.outputs[0];
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", -1), out.shape.rank());
  if (!axis.ok() || out.shape.rank() != indices.shape.rank() + 1 || !IsInteger(indices.dtype)) {
    return std::nullopt;
  }
  StepWriter w(query, OuterDims(out.shape));
  std::vector<int64_t> strides = DenseOf(indices.shape);
  strides.insert(strides.begin() + *axis, 0);
  const ScalarTerm index = CastTo(w.Load(0, std::move(strides)), DType::kI64);
  const ScalarTerm depth = w.Number(DType::kI64, static_cast<double>(out.shape[*axis]));
  const ScalarTerm counted = Select(index < 0, index + depth, index);
  const std::vector<int64_t> once(static_cast<size_t>(out.shape.rank()), 0);
  const ScalarTerm off = w.Load(2, once, 0), on = w.Load(2, once, 1);
  w.Store(0, Select(ScalarBinary(ScalarOp::kEqual, counted, w.Index(*axis)), on, off),
          DenseOf(out.shape));
  return w.Take();
}

ProgramStep TriluStep(const NodeQuery& query) {
  const TensorType& type = *query.inputs[0];
  const int rank = type.shape.rank();
  StepWriter w(query, OuterDims(type.shape));
  const ScalarTerm x = w.Load(0, DenseOf(type.shape));
  const ScalarTerm row = w.Index(rank - 2), column = w.Index(rank - 1);
  // k can be any number: the sum would overflow.
  ScalarTerm k = w.Number(DType::kI64, 0);
  if (HasInput(query, 1)) {
    const auto rows = static_cast<double>(type.shape[rank - 2]);
    const auto columns = static_cast<double>(type.shape[rank - 1]);
    k = Between(w.Load(1, std::vector<int64_t>(static_cast<size_t>(rank), 0)),
                w.Number(DType::kI64, -rows - 1), w.Number(DType::kI64, columns + 1));
  }
  const bool upper = query.attrs.Bool("upper", true);
  const ScalarTerm kept = upper ? ScalarBinary(ScalarOp::kGreaterEqual, column, row + k)
                                : ScalarBinary(ScalarOp::kLessEqual, column, row + k);
  w.Store(0, Select(kept, x, w.Number(type.dtype, 0)), DenseOf(type.shape));
  return w.Take();
}

std::optional<ProgramStep> StepOf(const NodeQuery& query) {
  const std::string& op = query.op;
  if (op == "BatchNormalization") return BatchNormalizationStep(query);
  if (op == "grad.BatchNormalization") return BatchNormalizationGradientStep(query);
  if (op == "GroupNormalization" || op == "InstanceNormalization") {
    return GroupNormalizationStep(query);
  }
  if (op.starts_with("Reduce")) return ReductionStep(query);
  if (op == "OneHot") return OneHotStep(query);
  if (op == "Trilu") return TriluStep(query);
  return std::nullopt;
}

}  // namespace

std::optional<ProgramSteps> ViewSteps(const NodeQuery& query) {
  std::optional<ProgramStep> step = StepOf(query);
  if (!step.has_value()) return std::nullopt;
  ProgramSteps steps;
  steps.steps.push_back(*std::move(step));
  return steps;
}

}  // namespace millrace
