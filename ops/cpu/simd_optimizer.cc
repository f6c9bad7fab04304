// f32 optimizers: one sweep over param, gradient and states. Formulas are the ops' own
// (ops/defs/optim_*.cc), in f32; what depends on the step alone is computed once, in f64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/simd_optimizer.cc"
#include "ops/cpu/simd_targets.h"
// Highway wants its per-target includes after this line.
#include "hwy/foreach_target.h"
#include "ops/cpu/optimizer_step.h"
#include "ops/cpu/simd_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

using FloatVec = hn::Vec<hn::ScalableTag<float>>;

HWY_INLINE FloatVec Number(float x) { return hn::Set(hn::ScalableTag<float>(), x); }

// update(gradient with the decay, param, state 1, state 2) changes the last three, for elements
// [begin, end).
template <class Update>
HWY_INLINE void Sweep(const OptimizerStep& s, int64_t begin, int64_t end, Update update) {
  const bool decays = s.decay != 0;
  ForEachSpan(end - begin, [&](int64_t offset, Span span) HWY_ATTR {
    const int64_t i = begin + offset;
    const auto load = [&](const float* p)
                          HWY_ATTR { return p == nullptr ? Number(0) : span.Load(p + i); };
    auto param = load(s.from[0]), state1 = load(s.from[1]), state2 = load(s.from[2]);
    auto grad = load(s.grad);
    if (decays) grad = hn::MulAdd(Number(s.decay), param, grad);
    update(grad, param, state1, state2);
    span.Store(param, s.to[0] + i);
    if (s.to[1] != nullptr) span.Store(state1, s.to[1] + i);
    if (s.to[2] != nullptr) span.Store(state2, s.to[2] + i);
  });
}

void SgdSweep(const OptimizerStep& s, int64_t begin, int64_t end) {
  const auto rate = Number(-s.rate), momentum = Number(s.keep1);
  Sweep(s, begin, end, [&](auto g, auto& param, auto& velocity, auto&) HWY_ATTR {
    velocity = hn::MulAdd(momentum, velocity, g);
    param = hn::MulAdd(rate, s.flag ? hn::MulAdd(momentum, velocity, g) : velocity, param);
  });
}

void AdagradSweep(const OptimizerStep& s, int64_t begin, int64_t end) {
  const auto rate = Number(s.rate), epsilon = Number(s.epsilon);
  Sweep(s, begin, end, [&](auto g, auto& param, auto& sum, auto&) HWY_ATTR {
    sum = hn::MulAdd(g, g, sum);
    param = hn::Sub(param, hn::Div(hn::Mul(rate, g), hn::Add(hn::Sqrt(sum), epsilon)));
  });
}

void RmsPropSweep(const OptimizerStep& s, int64_t begin, int64_t end) {
  const auto rate = Number(s.rate), epsilon = Number(s.epsilon);
  const auto keep = Number(s.keep1), add = Number(1 - s.keep1);
  Sweep(s, begin, end, [&](auto g, auto& param, auto& squares, auto&) HWY_ATTR {
    squares = hn::MulAdd(keep, squares, hn::Mul(add, hn::Mul(g, g)));
    const auto variance = hn::Max(squares, Number(0));  // a state of one's own may be negative
    param = hn::Sub(param, hn::Div(hn::Mul(rate, g), hn::Add(hn::Sqrt(variance), epsilon)));
  });
}

void AdamSweep(const OptimizerStep& s, int64_t begin, int64_t end) {
  const auto rate = Number(s.rate * s.scale1), epsilon = Number(s.epsilon);
  const auto keep1 = Number(s.keep1), add1 = Number(1 - s.keep1);
  const auto keep2 = Number(s.keep2), add2 = Number(1 - s.keep2), root = Number(s.scale2);
  Sweep(s, begin, end, [&](auto g, auto& param, auto& m, auto& v) HWY_ATTR {
    m = hn::MulAdd(keep1, m, hn::Mul(add1, g));
    v = hn::MulAdd(keep2, v, hn::Mul(add2, hn::Mul(g, g)));
    const auto size = hn::MulAdd(hn::Sqrt(v), root, epsilon);
    param = hn::Sub(param, hn::Div(hn::Mul(rate, m), size));
  });
}

// The param shrinks first; the gradient has no part in that.
void AdamWSweep(const OptimizerStep& step, int64_t begin, int64_t end) {
  OptimizerStep s = step;
  const auto shrink = Number(1 - s.rate * s.decay);
  s.decay = 0;
  const auto rate = Number(s.rate * s.scale1), epsilon = Number(s.epsilon);
  const auto keep1 = Number(s.keep1), add1 = Number(1 - s.keep1);
  const auto keep2 = Number(s.keep2), add2 = Number(1 - s.keep2), root = Number(s.scale2);
  Sweep(s, begin, end, [&](auto g, auto& param, auto& m, auto& v) HWY_ATTR {
    m = hn::MulAdd(keep1, m, hn::Mul(add1, g));
    v = hn::MulAdd(keep2, v, hn::Mul(add2, hn::Mul(g, g)));
    const auto size = hn::MulAdd(hn::Sqrt(v), root, epsilon);
    param = hn::Sub(hn::Mul(param, shrink), hn::Div(hn::Mul(rate, m), size));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>

#include "ops/cpu/kernel_families.h"
#include "ops/cpu/simd_dispatch.h"
#include "ops/cpu/team.h"
#include "ops/optimizer.h"

namespace millrace {
namespace {

HWY_EXPORT(SgdSweep);
HWY_EXPORT(AdagradSweep);
HWY_EXPORT(RmsPropSweep);
HWY_EXPORT(AdamSweep);
HWY_EXPORT(AdamWSweep);
using SweepFn = void (*)(const OptimizerStep& step, int64_t begin, int64_t end);

struct OptimizerPlan {
  SweepFn sweep = nullptr;
  OptimizerStep step;  // but for pointers and what depends on rate and step
  bool counts_steps = false;
  int first_state = 3, states = 0;
  int64_t elements = 0;
};

SweepFn SweepOf(std::string_view op) {
  if (op == "optim.SGD") return MILLRACE_SIMD_FUNCTION(SgdSweep);
  if (op == "optim.Adagrad") return MILLRACE_SIMD_FUNCTION(AdagradSweep);
  if (op == "optim.RMSProp") return MILLRACE_SIMD_FUNCTION(RmsPropSweep);
  if (op == "optim.Adam") return MILLRACE_SIMD_FUNCTION(AdamSweep);
  if (op == "optim.AdamW") return MILLRACE_SIMD_FUNCTION(AdamWSweep);
  return nullptr;
}

// f32 throughout, with a result for each state. RMSProp with momentum or centered: the reference.
std::optional<OptimizerPlan> PlanOptimizer(const NodeQuery& query) {
  OptimizerPlan plan;
  plan.sweep = SweepOf(query.op);
  if (plan.sweep == nullptr) return std::nullopt;
  const Attrs& attrs = query.attrs;
  plan.counts_steps = query.op == "optim.Adam" || query.op == "optim.AdamW";
  plan.first_state = plan.counts_steps ? kStep + 1 : kStep;
  const bool rms_prop = query.op == "optim.RMSProp";
  if (rms_prop && (attrs.Float("momentum", 0) != 0 || attrs.Bool("centered", false))) {
    return std::nullopt;
  }
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    if (!query.inputs[i].has_value()) continue;
    const bool is_step = plan.counts_steps && i == kStep;
    if (query.inputs[i]->dtype != (is_step ? DType::kI64 : DType::kF32)) return std::nullopt;
    if (static_cast<int>(i) >= plan.first_state) ++plan.states;
  }
  for (int k = 0; k <= plan.states; ++k) {
    if (!HasOutput(query, static_cast<size_t>(k))) return std::nullopt;
  }
  plan.elements = NumElements(query.inputs[kParam]->shape);
  OptimizerStep& step = plan.step;
  step.decay = static_cast<float>(attrs.Float("weight_decay", 0));
  step.epsilon = static_cast<float>(attrs.Float("epsilon", 0));
  step.keep1 = static_cast<float>(attrs.Float(plan.counts_steps ? "beta1"
                                              : rms_prop        ? "alpha"
                                                                : "momentum",
                                              0));
  step.keep2 = static_cast<float>(attrs.Float("beta2", 0));
  step.flag = attrs.Bool("nesterov", false);
  return plan;
}

class OptimizerKernel final : public Kernel {
 public:
  OptimizerKernel(const OptimizerPlan& plan, double beta1, double beta2, int threads)
      : plan_(plan), beta1_(beta1), beta2_(beta2), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    OptimizerStep step = plan_.step;
    step.rate = *static_cast<const float*>(args.inputs[kLearningRate]);
    step.grad = static_cast<const float*>(args.inputs[kGrad]);
    step.from[0] = static_cast<const float*>(args.inputs[kParam]);
    step.to[0] = static_cast<float*>(args.outputs[0]);
    for (int k = 0; k < plan_.states; ++k) {
      step.from[k + 1] = static_cast<const float*>(args.inputs[plan_.first_state + k]);
      step.to[k + 1] = static_cast<float*>(args.outputs[k + 1]);
    }
    if (plan_.counts_steps) {
      const double t = static_cast<double>(*static_cast<const int64_t*>(args.inputs[kStep])) + 1;
      step.scale1 = static_cast<float>(1 / (1 - std::pow(beta1_, t)));
      step.scale2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)));
    }
    ParallelFor(threads_, plan_.elements, plan_.elements * 4, 16,
                [&](int64_t begin, int64_t end) { plan_.sweep(step, begin, end); });
    return absl::OkStatus();
  }

 private:
  const OptimizerPlan plan_;
  const double beta1_, beta2_;
  const int threads_;
};

std::optional<KernelVariant> MatchOptimizer(const NodeQuery& query, int) {
  if (!PlanOptimizer(query).has_value()) return std::nullopt;
  return DenseVariant(query, "simd");
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareOptimizer(const KernelRequest& request) {
  const Attrs& attrs = request.query.attrs;
  return std::make_unique<OptimizerKernel>(*PlanOptimizer(request.query), attrs.Float("beta1", 0),
                                           attrs.Float("beta2", 0), request.threads);
}

}  // namespace

KernelFamily SimdOptimizerFamily() { return {"simd", MatchOptimizer, PrepareOptimizer}; }

}  // namespace millrace
#endif  // HWY_ONCE
