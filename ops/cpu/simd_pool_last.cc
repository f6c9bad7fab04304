// f32 MaxPool, AveragePool and GlobalMaxPool over operands whose channels lie last: the taps of a
// place are vectors of channels. A few vectors at a time are joined over all taps in registers;
// places are shared out among the team. Results are those of simd_pool.cc up to the order of sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_pool_last.cc"
#include <algorithm>
#include <limits>

#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/pool.h"

#ifndef MILLRACE_OPS_CPU_SIMD_POOL_LAST_CC_
#define MILLRACE_OPS_CPU_SIMD_POOL_LAST_CC_
namespace millrace {

struct LastPoolPlan {
  bool average = false;
  Window window;
  int64_t batch = 0, channels = 0;
  std::array<std::vector<int64_t>, kMaxSpatial> counts;  // AveragePool: as TapCounts gives them
};

}  // namespace millrace
#endif  // MILLRACE_OPS_CPU_SIMD_POOL_LAST_CC_

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// The larger one; NaN when either is.
struct LastMaximum {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), hn::Max(a, b));
  }
};

struct LastSum {
  static constexpr float kStart = 0;
  template <class V>
  static HWY_INLINE V Join(V a, V b) {
    return hn::Add(a, b);
  }
};

// One place of the window over one image: its taps, per dim.
struct LastPlace {
  TapRange taps[kMaxSpatial];
};

// f(offset of the tap's position in the image).
template <typename F>
HWY_INLINE void ForEachLastTap(const Window& w, const LastPlace& place, F&& f) {
  for (int64_t k0 = place.taps[0].first; k0 < place.taps[0].last; ++k0) {
    const int64_t i0 = place.taps[0].start + k0 * w.dilations[0];
    for (int64_t k1 = place.taps[1].first; k1 < place.taps[1].last; ++k1) {
      const int64_t i1 = i0 * w.in[1] + place.taps[1].start + k1 * w.dilations[1];
      for (int64_t k2 = place.taps[2].first; k2 < place.taps[2].last; ++k2) {
        f(i1 * w.in[2] + place.taps[2].start + k2 * w.dilations[2]);
      }
    }
  }
}

template <class Joining>
void PoolPlace(const LastPoolPlan& plan, const LastPlace& place, float scale, const float* image,
               float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t channels = plan.channels;
  const auto start = hn::Set(d, Joining::kStart), factor = hn::Set(d, scale);
  int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes) {
    auto s0 = start, s1 = start, s2 = start, s3 = start;
    ForEachLastTap(plan.window, place, [&](int64_t position) {
      const float* from = image + position * channels + c;
      s0 = Joining::Join(s0, hn::LoadU(d, from));
      s1 = Joining::Join(s1, hn::LoadU(d, from + lanes));
      s2 = Joining::Join(s2, hn::LoadU(d, from + 2 * lanes));
      s3 = Joining::Join(s3, hn::LoadU(d, from + 3 * lanes));
    });
    hn::StoreU(hn::Mul(s0, factor), d, out + c);
    hn::StoreU(hn::Mul(s1, factor), d, out + c + lanes);
    hn::StoreU(hn::Mul(s2, factor), d, out + c + 2 * lanes);
    hn::StoreU(hn::Mul(s3, factor), d, out + c + 3 * lanes);
  }
  for (; c < channels; c += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, channels - c)));
    auto s = start;
    ForEachLastTap(plan.window, place, [&](int64_t position) {
      s = Joining::Join(s, hn::MaskedLoad(mask, d, image + position * channels + c));
    });
    hn::BlendedStore(hn::Mul(s, factor), mask, d, out + c);
  }
}

// Places [begin, end), counted over all images.
void PoolPlaces(const LastPoolPlan& plan, const float* in, float* out, int64_t begin, int64_t end) {
  const Window& w = plan.window;
  const int64_t places = Volume(w.out), positions = Volume(w.in);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t at[] = {p % places / (w.out[1] * w.out[2]), p / w.out[2] % w.out[1],
                          p % w.out[2]};
    LastPlace place;
    for (int i = 0; i < kMaxSpatial; ++i) place.taps[i] = TapsWithin(w, i, at[i], 0, w.in[i]);
    const float* image = in + p / places * positions * plan.channels;
    float* to = out + p * plan.channels;
    if (plan.average) {
      int64_t count = 1;
      for (int i = 0; i < kMaxSpatial; ++i) count *= plan.counts[i][at[i]];
      PoolPlace<LastSum>(plan, place, 1.0f / static_cast<float>(std::max<int64_t>(1, count)), image,
                         to);
    } else {
      PoolPlace<LastMaximum>(plan, place, 1.0f, image, to);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "graph/channels_last.h"
#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"

namespace millrace {
namespace {

HWY_EXPORT(PoolPlaces);
using LastPoolFn = void (*)(const LastPoolPlan& plan, const float* in, float* out, int64_t begin,
                            int64_t end);

std::optional<Window> LastWindowOf(const NodeQuery& query) {
  const Shape& x = query.inputs[0]->shape;
  if (query.op == "GlobalMaxPool") {
    const std::vector<int64_t> spatial(x.begin() + 2, x.end());
    const absl::StatusOr<Window> window = MakeWindow(Attrs(), spatial, spatial);
    return window.ok() ? std::optional<Window>(*window) : std::nullopt;
  }
  if (query.op != "MaxPool" && query.op != "AveragePool") return std::nullopt;
  const absl::StatusOr<Window> window = PoolWindow(query.attrs, x);
  return window.ok() ? std::optional<Window>(*window) : std::nullopt;
}

std::optional<LastPoolPlan> MakeLastPoolPlan(const NodeQuery& query) {
  if (!HasInput(query, 0) || !HasOutput(query, 0) || HasOutput(query, 1)) return std::nullopt;
  if (!AllOf(query, DType::kF32) || !HasChannelsLast(query.inputs[0]->shape)) return std::nullopt;
  const std::optional<Window> window = LastWindowOf(query);
  if (!window.has_value()) return std::nullopt;
  LastPoolPlan plan;
  plan.average = query.op == "AveragePool";
  plan.window = *window;
  plan.batch = query.inputs[0]->shape[0];
  plan.channels = query.inputs[0]->shape[1];
  if (plan.average) {
    plan.counts = TapCounts(*window, query.attrs.Bool("count_include_pad", false));
  }
  return plan;
}

class LastPoolKernel final : public Kernel {
 public:
  LastPoolKernel(LastPoolPlan plan, int threads)
      : function_(MILLRACE_SIMD_FUNCTION(PoolPlaces)), plan_(std::move(plan)), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    auto* out = static_cast<float*>(args.outputs[0]);
    const int64_t places = plan_.batch * Volume(plan_.window.out);
    const int64_t steps = places * Volume(plan_.window.kernel) * plan_.channels / 8;
    ParallelFor(threads_, places, steps, 1,
                [&](int64_t begin, int64_t end) { function_(plan_, in, out, begin, end); });
    return absl::OkStatus();
  }

 private:
  const LastPoolFn function_;
  const LastPoolPlan plan_;
  const int threads_;
};

std::optional<KernelVariant> MatchNoLastPool(const NodeQuery&, int) { return std::nullopt; }

std::vector<KernelVariant> OfferLastPool(const NodeQuery& query, int) {
  if (!MakeLastPoolPlan(query).has_value()) return {};
  KernelVariant variant = DenseVariant(query, "simd_nhwc");
  variant.in_layouts[0] = variant.out_layouts[0] = Layout::kNHWC;
  return {variant};
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareLastPool(const KernelRequest& request) {
  return std::make_unique<LastPoolKernel>(*MakeLastPoolPlan(request.query), request.threads);
}

}  // namespace

KernelFamily SimdPoolLastFamily() {
  return {"simd_nhwc", MatchNoLastPool, PrepareLastPool, OfferLastPool};
}

}  // namespace millrace
#endif  // HWY_ONCE
