// f32 GroupNormalization and InstanceNormalization. A group's elements lie one after another: mean,
// mean of squared differences, then each channel's part of the row with its own factor and bias.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_group_norm.cc"
#include <cmath>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_rows-inl.h"

#ifndef MILLRACE_OPS_CPU_SIMD_GROUP_NORM_CC_
#define MILLRACE_OPS_CPU_SIMD_GROUP_NORM_CC_
namespace millrace {

struct GroupNormArgs {
  const float *x = nullptr, *scale = nullptr, *bias = nullptr;
  float* y = nullptr;                   // may be x
  int64_t groups = 0;                   // of an image
  int64_t channels = 0, positions = 0;  // of a group, of a channel
  double epsilon = 0;
};

}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_SIMD_GROUP_NORM_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// Groups [begin, end), counted over all images.
void GroupNormRows(const GroupNormArgs& a, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t row = a.channels * a.positions;
  const size_t n = static_cast<size_t>(row);
  for (int64_t g = begin; g < end; ++g) {
    const float* x = a.x + g * row;
    float* y = a.y + g * row;
    const double mean = RowSum(x, n, [](auto v) HWY_ATTR { return v; }) / static_cast<double>(row);
    const auto mean_v = hn::Set(d, static_cast<float>(mean));
    const double squares = RowSum(x, n, [&](auto v) HWY_ATTR {
      const auto difference = hn::Sub(v, mean_v);
      return hn::Mul(difference, difference);
    });
    const double r = 1 / std::sqrt(squares / static_cast<double>(row) + a.epsilon);
    for (int64_t c = 0; c < a.channels; ++c) {
      const int64_t channel = g % a.groups * a.channels + c;
      const auto factor = hn::Set(d, static_cast<float>(a.scale[channel] * r));
      const auto bias = hn::Set(d, a.bias[channel]);
      UnaryRow(x + c * a.positions, y + c * a.positions, static_cast<size_t>(a.positions),
               [&](auto v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, mean_v), factor, bias); });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/axes.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(GroupNormRows);
using GroupNormFn = void (*)(const GroupNormArgs& args, int64_t begin, int64_t end);

class GroupNormKernel final : public Kernel {
 public:
  GroupNormKernel(const NodeQuery& query, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(GroupNormRows)), threads_(threads) {
    const Shape& x = query.inputs[0]->shape;
    batch_ = x[0];
    args_.groups = query.attrs.Int("num_groups", x[1]);
    args_.channels = x[1] / args_.groups;
    args_.positions = ElementsFrom(x, 2);
    args_.epsilon = query.attrs.Float("epsilon", 0);
  }

  absl::Status Run(const KernelArgs& args) override {
    GroupNormArgs a = args_;
    a.x = static_cast<const float*>(args.inputs[0]);
    a.scale = static_cast<const float*>(args.inputs[1]);
    a.bias = static_cast<const float*>(args.inputs[2]);
    a.y = static_cast<float*>(args.outputs[0]);
    const int64_t rows = batch_ * a.groups;
    ParallelFor(threads_, rows, rows * a.channels * a.positions, 1,
                [&](int64_t begin, int64_t end) { function_(a, begin, end); });
    return absl::OkStatus();
  }

 private:
  const GroupNormFn function_;
  const int threads_;
  int64_t batch_ = 0;
  GroupNormArgs args_;  // all but addresses
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (query.op != "GroupNormalization" && query.op != "InstanceNormalization") return std::nullopt;
  if (!AllOf(query, DType::kF32) || NumElements(query.inputs[0]->shape) == 0) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<GroupNormKernel>(request.query, request.threads);
}

}  // namespace

KernelFamily SimdGroupNormFamily() { return {"simd", Match, Prepare}; }

}  // namespace millrace
#endif  // HWY_ONCE
