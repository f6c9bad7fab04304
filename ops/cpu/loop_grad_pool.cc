// f32 grad.MaxPool and grad.AveragePool: for each channel the gradient is zeroed, then each place
// of the window adds to where it belongs: the first of its maxima, or all its taps alike. A team
// splits the channels.
#include <algorithm>
#include <cmath>

#include "ops/cpu/kernel_families.h"
#include "ops/cpu/team.h"
#include "ops/pool.h"

namespace millrace {
namespace {

struct GradPoolPlan {
  bool average = false;
  Window window;
  int64_t channels = 0;                                  // of all images
  double taps = 0;                                       // of a channel
  std::array<std::vector<int64_t>, kMaxSpatial> counts;  // AveragePool
};

void SpreadToMaxima(const Window& w, const float* dy, const float* x, float* dx) {
  ForEachPlace(w, [&](int64_t o, const TapRange& t0, const TapRange& t1, const TapRange& t2) {
    int64_t best = -1;
    ForEachTapOf(w, t0, t1, t2, [&](int64_t i, int64_t) {
      if (best < 0 || x[i] > x[best] || (std::isnan(x[i]) && !std::isnan(x[best]))) best = i;
    });
    if (best >= 0) dx[best] += dy[o];
  });
}

void SpreadEvenly(const GradPoolPlan& plan, const float* dy, float* dx) {
  const Window& w = plan.window;
  ForEachPlace(w, [&](int64_t o, const TapRange& t0, const TapRange& t1, const TapRange& t2) {
    const int64_t o2 = o % w.out[2], o1 = o / w.out[2] % w.out[1], o0 = o / w.out[2] / w.out[1];
    const int64_t taps = plan.counts[0][o0] * plan.counts[1][o1] * plan.counts[2][o2];
    if (taps == 0) return;
    const float share = dy[o] / static_cast<float>(taps);
    ForEachTapOf(w, t0, t1, t2, [&](int64_t i, int64_t) { dx[i] += share; });
  });
}

std::optional<GradPoolPlan> MakePlan(const NodeQuery& query) {
  const bool average = query.op == "grad.AveragePool";
  if ((!average && query.op != "grad.MaxPool") || !AllOf(query, DType::kF32)) return std::nullopt;
  if (!HasOutput(query, 0)) return std::nullopt;
  const Shape& x = query.outputs[0]->shape;
  const absl::StatusOr<Window> window = PoolWindow(query.attrs, x);
  if (!window.ok()) return std::nullopt;
  GradPoolPlan plan;
  plan.average = average;
  plan.window = *window;
  plan.channels = x[0] * x[1];
  plan.taps =
      static_cast<double>(Volume(window->out)) * static_cast<double>(Volume(window->kernel));
  if (average) plan.counts = TapCounts(*window, query.attrs.Bool("count_include_pad", false));
  return plan;
}

class GradPoolKernel final : public Kernel {
 public:
  GradPoolKernel(GradPoolPlan plan, int threads) : plan_(std::move(plan)), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const int64_t in = Volume(plan_.window.in), out = Volume(plan_.window.out);
    const auto* dy = static_cast<const float*>(args.inputs[0]);
    const auto* x = plan_.average ? nullptr : static_cast<const float*>(args.inputs[1]);
    auto* dx = static_cast<float*>(args.outputs[0]);
    const double steps = static_cast<double>(plan_.channels) * plan_.taps;
    ParallelFor(threads_, plan_.channels, static_cast<int64_t>(std::min(steps, 1e18)), 1,
                [&](int64_t begin, int64_t end) {
                  for (int64_t c = begin; c < end; ++c) {
                    std::fill(dx + c * in, dx + (c + 1) * in, 0.0f);
                    if (plan_.average) {
                      SpreadEvenly(plan_, dy + c * out, dx + c * in);
                    } else {
                      SpreadToMaxima(plan_.window, dy + c * out, x + c * in, dx + c * in);
                    }
                  }
                });
    return absl::OkStatus();
  }

 private:
  const GradPoolPlan plan_;
  const int threads_;
};

std::optional<KernelVariant> Match(const NodeQuery& query, int) {
  if (!MakePlan(query).has_value()) return std::nullopt;
  return DenseVariant(query, "loop");
}

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  return std::make_unique<GradPoolKernel>(*MakePlan(request.query), request.threads);
}

}  // namespace

KernelFamily LoopGradPoolFamily() { return {"loop", Match, Prepare}; }

}  // namespace millrace
