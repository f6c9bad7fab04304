// f32 LayerNormalization and RMSNormalization over the last dims. Per row: mean (RMSNormalization:
// none, it is 0); mean of squared differences (two sweeps, so that nothing cancels); normalize,
// scale, shift. Scale and bias have one element per element of a row; a Scale or B that is
// broadcast within a row is left to the reference.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_layer_norm.cc"
#include <cmath>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

#ifndef MILLRACE_OPS_CPU_SIMD_LAYER_NORM_CC_
#define MILLRACE_OPS_CPU_SIMD_LAYER_NORM_CC_
namespace millrace {
struct LayerNormArgs {
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;   // may be null
  float* y = nullptr;            // may be x
  float* mean = nullptr;         // may be null
  float* inv_std_dev = nullptr;  // may be null
  int64_t count = 0;             // of a row
  bool centered = true;          // subtract the mean
  double epsilon = 0;
};
}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_SIMD_LAYER_NORM_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// (x - mean) * inv * scale + bias, in that order of rounding.
HWY_INLINE void NormalizeRow(const LayerNormArgs& args, const float* x, float* y, float mean,
                             float inv) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(args.count);
  const auto mean_v = hn::Set(d, mean), inv_v = hn::Set(d, inv);
  const auto apply = [&](auto v, auto scale, auto bias) HWY_ATTR {
    return hn::MulAdd(hn::Mul(hn::Sub(v, mean_v), inv_v), scale, bias);
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bias = args.bias != nullptr ? hn::LoadU(d, args.bias + i) : hn::Zero(d);
    hn::StoreU(apply(hn::LoadU(d, x + i), hn::LoadU(d, args.scale + i), bias), d, y + i);
  }
  if (i == n) return;
  const auto bias = args.bias != nullptr ? LoadFirst(d, args.bias + i, n - i) : hn::Zero(d);
  const auto scale = LoadFirst(d, args.scale + i, n - i);
  StoreFirst(apply(LoadFirst(d, x + i, n - i), scale, bias), d, y + i, n - i);
}

void LayerNormAll(const LayerNormArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const size_t n = static_cast<size_t>(args.count);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = args.x + r * args.count;
    const double mean =
        args.centered ? RowSum(x, n, [](auto v) HWY_ATTR { return v; }) / args.count : 0;
    const auto mean_v = hn::Set(d, static_cast<float>(mean));
    const double squares = RowSum(x, n, [&](auto v) HWY_ATTR {
      const auto difference = hn::Sub(v, mean_v);
      return hn::Mul(difference, difference);
    });
    const float inv = static_cast<float>(1.0 / std::sqrt(squares / args.count + args.epsilon));
    NormalizeRow(args, x, args.y + r * args.count, static_cast<float>(mean), inv);
    if (args.mean != nullptr) args.mean[r] = static_cast<float>(mean);
    if (args.inv_std_dev != nullptr) args.inv_std_dev[r] = inv;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(LayerNormAll);
using LayerNormFn = void (*)(const LayerNormArgs& args, int64_t begin, int64_t end);

class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(int64_t rows, int64_t count, double epsilon, const NodeQuery& query, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(LayerNormAll)),
        rows_(rows),
        count_(count),
        epsilon_(epsilon),
        centered_(query.op == "LayerNormalization"),
        has_bias_(HasInput(query, 2)),
        has_mean_(HasOutput(query, 1)),
        has_inv_std_dev_(HasOutput(query, 2)),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const LayerNormArgs row = {
        .x = static_cast<const float*>(args.inputs[0]),
        .scale = static_cast<const float*>(args.inputs[1]),
        .bias = has_bias_ ? static_cast<const float*>(args.inputs[2]) : nullptr,
        .y = static_cast<float*>(args.outputs[0]),
        .mean = has_mean_ ? static_cast<float*>(args.outputs[1]) : nullptr,
        .inv_std_dev = has_inv_std_dev_ ? static_cast<float*>(args.outputs[2]) : nullptr,
        .count = count_,
        .centered = centered_,
        .epsilon = epsilon_};
    ParallelFor(threads_, rows_, rows_ * count_, 1,
                [&](int64_t begin, int64_t end) { function_(row, begin, end); });
    return absl::OkStatus();
  }

 private:
  const LayerNormFn function_;
  const int64_t rows_, count_;
  const double epsilon_;
  const bool centered_, has_bias_, has_mean_, has_inv_std_dev_;
  const int threads_;
};

int NormalizedAxis(const NodeQuery& query) {
  const int64_t axis = query.attrs.Int("axis", -1);
  return static_cast<int>(axis < 0 ? axis + query.inputs[0]->shape.rank() : axis);
}

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "LayerNormalization" && query.op != "RMSNormalization") return std::nullopt;
  if (!AllOf(query, DType::kF32) || !HasOutput(query, 0)) return std::nullopt;
  const Shape& shape = query.inputs[0]->shape;
  const int axis = NormalizedAxis(query);
  if (axis < 0 || axis >= shape.rank() || NumElements(shape) == 0) return std::nullopt;
  const int64_t count = NumElements(Shape(shape.dims().subspan(axis)));
  for (size_t i = 1; i < query.inputs.size(); ++i) {
    if (HasInput(query, i) && NumElements(query.inputs[i]->shape) != count) return std::nullopt;
  }
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  const NodeQuery& query = request.query;
  const Shape& shape = query.inputs[0]->shape;
  const int64_t count = NumElements(Shape(shape.dims().subspan(NormalizedAxis(query))));
  return std::make_unique<LayerNormKernel>(NumElements(shape) / count, count,
                                           query.attrs.Float("epsilon", 1e-5), query,
                                           request.threads);
}

}  // namespace

KernelFamily SimdLayerNormFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
