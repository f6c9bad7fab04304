// f32 SoftmaxCrossEntropyLoss and its gradient, where classes lie side by side: scores [N,C], no
// weights, no ignored label, and no log-probabilities asked for. A sample takes two sweeps over its
// row for its loss (maximum; exponentials, summed) and three for its gradient,
// (softmax(scores) - [k == label]) * what flows back. Losses of samples are summed in their order,
// in f64: a team changes no bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_label_loss.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

float RowLoss(const float* scores, int64_t count, int64_t label) {
  const hn::ScalableTag<float> d;
  const float largest = RowMax(scores, static_cast<size_t>(count));
  const auto max = hn::Set(d, largest);
  const double sum = RowSum(scores, static_cast<size_t>(count),
                            [&](auto x) HWY_ATTR { return Exp(d, hn::Sub(x, max)); });
  const double own = static_cast<double>(scores[label]) - static_cast<double>(largest);
  return static_cast<float>(std::log(sum) - own);
}

void RowLossGradient(const float* scores, int64_t count, int64_t label, float flow, float* out) {
  const hn::ScalableTag<float> d;
  const auto n = static_cast<size_t>(count);
  const auto max = hn::Set(d, RowMax(scores, n));
  UnaryRow(scores, out, n, [&](auto x) HWY_ATTR { return Exp(d, hn::Sub(x, max)); });
  const double sum = RowSum(out, n, [](auto x) HWY_ATTR { return x; });
  const double own = static_cast<double>(out[label]) / sum;
  const auto scale = hn::Set(d, static_cast<float>(static_cast<double>(flow) / sum));
  UnaryRow(out, out, n, [&](auto x) HWY_ATTR { return hn::Mul(x, scale); });
  out[label] = static_cast<float>((own - 1) * static_cast<double>(flow));
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "graph/strings.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"
#include "ops/label_loss.h"

namespace millrace {
namespace {

HWY_EXPORT(RowLoss);
HWY_EXPORT(RowLossGradient);
using RowLossFn = float (*)(const float* scores, int64_t count, int64_t label);
using RowGradientFn = void (*)(const float* scores, int64_t count, int64_t label, float flow,
                               float* out);

struct RowsWithLabels {
  LabelLoss loss;
  bool wide_labels = false;  // i64, else i32

  int64_t LabelOf(const void* labels, int64_t i) const {
    return wide_labels ? static_cast<const int64_t*>(labels)[i]
                       : static_cast<const int32_t*>(labels)[i];
  }
  // As the reference puts it.
  absl::Status Check(const void* labels) const {
    for (int64_t i = 0; i < loss.batch; ++i) {
      const int64_t label = LabelOf(labels, i);
      if (label >= 0 && label < loss.classes) continue;
      return BadInputError(
          StrCat("label ", label, " of sample ", i, " is out of range [0,", loss.classes, ")"));
    }
    return absl::OkStatus();
  }
};

std::optional<RowsWithLabels> RowsOf(const NodeQuery& query) {
  const bool gradient = query.op == "grad.SoftmaxCrossEntropyLoss";
  if (!gradient && query.op != "SoftmaxCrossEntropyLoss") return std::nullopt;
  const TensorType &scores = *query.inputs[0], &labels = *query.inputs[1];
  RowsWithLabels rows{LabelLossOf(query.attrs, scores.shape), labels.dtype == DType::kI64};
  const bool plain = scores.dtype == DType::kF32 && rows.loss.positions == 1 &&
                     (rows.wide_labels || labels.dtype == DType::kI32) &&
                     !rows.loss.ignore_index.has_value() && !HasInput(query, 2) &&
                     HasOutput(query, 0) && !HasOutput(query, 1);
  if (!plain || rows.loss.batch == 0 || rows.loss.classes == 0) return std::nullopt;
  const bool flows = HasInput(query, 3) && !HasInput(query, 4);
  if (gradient && (!flows || rows.loss.reduce == LabelLoss::Reduce::kMean)) return std::nullopt;
  return rows;
}

// The scratch has a loss for each sample.
class LabelLossKernel final : public Kernel {
 public:
  LabelLossKernel(const RowsWithLabels& rows, int threads) : rows_(rows), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const LabelLoss& loss = rows_.loss;
    MILLRACE_RETURN_IF_ERROR(rows_.Check(args.inputs[1]));
    const auto* scores = static_cast<const float*>(args.inputs[0]);
    const bool each = loss.reduce == LabelLoss::Reduce::kNone;
    auto* losses = static_cast<float*>(each ? args.outputs[0] : args.scratch);
    const RowLossFn row_loss = MILLRACE_SIMD_FUNCTION(RowLoss);
    ParallelFor(
        threads_, loss.batch, loss.batch * loss.classes, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            losses[i] =
                row_loss(scores + i * loss.classes, loss.classes, rows_.LabelOf(args.inputs[1], i));
          }
        });
    if (each) return absl::OkStatus();
    double sum = 0;
    for (int64_t i = 0; i < loss.batch; ++i) sum += static_cast<double>(losses[i]);
    const bool mean = loss.reduce == LabelLoss::Reduce::kMean;
    *static_cast<float*>(args.outputs[0]) =
        static_cast<float>(mean ? sum / static_cast<double>(loss.batch) : sum);
    return absl::OkStatus();
  }

 private:
  const RowsWithLabels rows_;
  const int threads_;
};

class LabelLossGradientKernel final : public Kernel {
 public:
  LabelLossGradientKernel(const RowsWithLabels& rows, int threads)
      : rows_(rows), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const LabelLoss& loss = rows_.loss;
    MILLRACE_RETURN_IF_ERROR(rows_.Check(args.inputs[1]));
    const auto* scores = static_cast<const float*>(args.inputs[0]);
    const auto* flow = static_cast<const float*>(args.inputs[3]);
    auto* out = static_cast<float*>(args.outputs[0]);
    const bool each = loss.reduce == LabelLoss::Reduce::kNone;
    const RowGradientFn row_gradient = MILLRACE_SIMD_FUNCTION(RowLossGradient);
    ParallelFor(
        threads_, loss.batch, loss.batch * loss.classes, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            row_gradient(scores + i * loss.classes, loss.classes, rows_.LabelOf(args.inputs[1], i),
                         flow[each ? i : 0], out + i * loss.classes);
          }
        });
    return absl::OkStatus();
  }

 private:
  const RowsWithLabels rows_;
  const int threads_;
};

std::optional<KernelVariant> MatchLabelLoss(const NodeQuery& query, int) {
  const std::optional<RowsWithLabels> rows = RowsOf(query);
  if (!rows.has_value()) return std::nullopt;
  KernelVariant variant = DenseVariant(query, "simd");
  if (rows->loss.reduce != LabelLoss::Reduce::kNone) {
    variant.scratch_bytes = rows->loss.batch * static_cast<int64_t>(sizeof(float));
  }
  return variant;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareLabelLoss(const KernelRequest& request) {
  const RowsWithLabels rows = *RowsOf(request.query);
  if (request.query.op == "SoftmaxCrossEntropyLoss") {
    return std::make_unique<LabelLossKernel>(rows, request.threads);
  }
  return std::make_unique<LabelLossGradientKernel>(rows, request.threads);
}

}  // namespace

KernelFamily SimdLabelLossFamily() { return {"simd", MatchLabelLoss, PrepareLabelLoss}; }

}  // namespace millrace
#endif  // HWY_ONCE
