#include "passes/training_step.h"

#include <limits>
#include <map>
#include <numbers>

#include "graph/strings.h"
#include "ops/optimizer.h"

namespace millrace {
namespace {

// The smaller of two.
Term Least(const Term& a, const Term& b) { return Apply("Min", {a, b}); }

std::string_view OpOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return "optim.SGD";
    case OptimizerKind::kAdagrad:
      return "optim.Adagrad";
    case OptimizerKind::kRmsProp:
      return "optim.RMSProp";
    case OptimizerKind::kAdam:
      return "optim.Adam";
    case OptimizerKind::kAdamW:
      return "optim.AdamW";
  }
  return "";
}

bool HasMomentum(OptimizerKind kind) {
  return kind == OptimizerKind::kMomentum || kind == OptimizerKind::kNesterov;
}

Attrs OptimizerAttrs(const OptimizerSpec& spec) {
  Attrs attrs;
  attrs.Set("weight_decay", spec.weight_decay);
  if (HasMomentum(spec.kind)) attrs.Set("momentum", spec.momentum);
  if (spec.kind == OptimizerKind::kNesterov) attrs.Set("nesterov", true);
  return attrs;
}

DataSource Zero(DType dtype) {
  DataSource source;
  source.kind = DataSource::Kind::kSplat;
  source.tensor = Tensor::Zeros({dtype, {}});
  return source;
}

void UpdateWhenDue(GraphBuilder& builder, ValueId param, Term value, const Term& due) {
  if (due.builder != nullptr) {
    value = Select(due, value, {&builder, param, builder.graph().value(param).type.dtype});
  }
  builder.AddUpdate(param, value.id);
}

void UpdateParam(GraphBuilder& builder, const OptimizerSpec& spec, const TrainedParam& trained,
                 const Term& learning_rate, const Term& updates, const Term& due) {
  const OpDef& op = *FindOp(OpOf(spec.kind));
  const TensorType type = builder.graph().value(trained.param).type;
  const std::string name = builder.graph().value(trained.param).name;
  std::vector<ValueId> operands = {trained.param, trained.gradient.id, learning_rate.id};
  std::vector<ValueId> states;
  for (size_t i = kStep; i < op.inputs.size(); ++i) {
    const OperandSpec& operand = op.inputs[i];
    if (operand.name == "step") {
      operands.push_back(updates.id);
    } else if (!operand.optional || HasMomentum(spec.kind)) {
      states.push_back(builder.Param(StrCat("optim/", name, "/", operand.name), type,
                                     Zero(type.dtype), /*trainable=*/false));
      operands.push_back(states.back());
    }
  }
  const Node& node = builder.AddNode(op.name, operands, OptimizerAttrs(spec),
                                     StrCat("optim/", name), 1 + static_cast<int>(states.size()));
  const std::vector<ValueId> results = node.outputs;
  UpdateWhenDue(builder, trained.param, {&builder, results[0], type.dtype}, due);
  for (size_t i = 0; i < states.size(); ++i) {
    UpdateWhenDue(builder, states[i], {&builder, results[i + 1], type.dtype}, due);
  }
}

}  // namespace

Term LearningRateAt(const RateSpec& spec, const Term& base, const Term& updates) {
  const Term done = CastTo(updates, DType::kF32);
  Term rate = base;
  if (spec.kind == RateKind::kCosine) {
    const auto falling = static_cast<double>(std::max<int64_t>(1, spec.total - spec.warmup));
    const Term t = Apply("Clip", {(done - static_cast<double>(spec.warmup)) / falling,
                                  Scalar(done, 0), Scalar(done, 1)});
    rate = rate * (Apply("Cos", {t * std::numbers::pi}) * 0.5 + 0.5);
  } else if (spec.kind == RateKind::kStep) {
    const Term drops = Apply("Floor", {done / static_cast<double>(spec.every)});
    rate = rate * Apply("Pow", {Scalar(done, spec.factor), drops});
  }
  if (spec.warmup > 0) {
    rate = rate * Least((done + 1) / static_cast<double>(spec.warmup), Scalar(done, 1));
  }
  return rate;
}

std::vector<Term> ClipGradients(const OptimizerSpec& spec, const std::vector<Term>& gradients) {
  std::vector<Term> clipped = gradients;
  if (spec.clip_value > 0) {
    for (Term& g : clipped) {
      g = Apply("Clip", {g, Scalar(g, -spec.clip_value), Scalar(g, spec.clip_value)});
    }
  }
  if (spec.clip_norm > 0 && !clipped.empty()) {
    Attrs attrs;
    attrs.Set("keepdims", false);
    Term squares{};
    for (const Term& g : clipped) {
      const Term own = CastTo(Apply("ReduceSumSquare", {g}, attrs), DType::kF32);
      squares = squares.builder == nullptr ? own : squares + own;
    }
    const Term norm = Apply("Sqrt", {squares});
    // 1 exactly where the norm is small enough.
    const Term scale =
        Scalar(norm, spec.clip_norm) / Apply("Max", {norm, Scalar(norm, spec.clip_norm)});
    for (Term& g : clipped) g = g * CastTo(scale, g.dtype);
  }
  return clipped;
}

Term AllFinite(const std::vector<Term>& gradients) {
  Attrs attrs;
  attrs.Set("keepdims", false);
  Term all{};
  for (const Term& g : gradients) {
    // NaN is not below anything.
    const Term is_finite =
        CastTo(Apply("Abs", {g}) < std::numeric_limits<double>::infinity(), DType::kF32);
    const Term own = Apply("ReduceMin", {is_finite}, attrs);
    all = all.builder == nullptr ? own : Least(all, own);
  }
  return 0.5 < all;
}

Term AddLossScale(GraphBuilder& builder, const LossScaleSpec& spec) {
  DataSource source;
  source.kind = DataSource::Kind::kSplat;
  source.tensor = Tensor::Scalar(static_cast<float>(spec.scale));
  return {&builder,
          builder.Param("train/loss_scale", {DType::kF32, {}}, source, /*trainable=*/false),
          DType::kF32};
}

void UpdateLossScale(const LossScaleSpec& spec, const Term& scale, const Term& finite,
                     const Term& due) {
  if (spec.grow_every == 0) return;
  GraphBuilder& builder = *scale.builder;
  const Term good = {&builder,
                     builder.Param("train/loss_scale_held", {DType::kI64, {}}, Zero(DType::kI64),
                                   /*trainable=*/false),
                     DType::kI64};
  const Term next = good + 1;
  const Term grows = EqualTo(next, static_cast<double>(spec.grow_every));
  const Term larger = Least(scale * 2, Scalar(scale, kLargestLossScale));
  const Term grown = Select(grows, larger, scale);
  const Term halved = Apply("Max", {scale * 0.5, Scalar(scale, 1)});
  UpdateWhenDue(builder, scale.id, Select(finite, grown, halved), due);
  const Term held = Select(finite, Select(grows, Scalar(good, 0), next), Scalar(good, 0));
  UpdateWhenDue(builder, good.id, held, due);
}

void AppendOptimizer(GraphBuilder& builder, const OptimizerSpec& spec,
                     std::span<const TrainedParam> params, const Term& learning_rate,
                     const Term& updates, const Term& due) {
  for (const TrainedParam& trained : params) {
    UpdateParam(builder, spec, trained, learning_rate, updates, due);
  }
}

void AppendAccumulation(GraphBuilder& builder, int64_t steps, const Term& due,
                        std::vector<TrainedParam>& params) {
  for (TrainedParam& trained : params) {
    const Value& value = builder.graph().value(trained.param);
    const TensorType type = value.type;
    const Term sum = {&builder,
                      builder.Param(StrCat("optim/", value.name, "/gradients"), type,
                                    Zero(type.dtype), /*trainable=*/false),
                      type.dtype};
    const Term now = sum + trained.gradient;
    builder.AddUpdate(sum.id, Select(due, Scalar(now, 0), now).id);
    trained.gradient = now * (1.0 / static_cast<double>(steps));
  }
}

}  // namespace millrace
