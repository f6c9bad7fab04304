#include "passes/training.h"

#include <map>

#include "graph/builder.h"
#include "graph/diagnostics.h"
#include "graph/strings.h"
#include "graph/verify.h"
#include "ops/gradient.h"
#include "ops/infer.h"
#include "passes/autodiff.h"
#include "passes/training_loss.h"
#include "passes/training_step.h"

namespace millrace {
namespace {

template <typename Kind>
using KindNames = std::vector<std::pair<std::string, Kind>>;

template <typename Kind>
absl::StatusOr<Kind> ParseKind(const KindNames<Kind>& kinds, std::string_view what,
                               std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, kind] : kinds) {
    if (known == name) return kind;
    names.push_back(known);
  }
  std::string all;
  for (const std::string& known : names) StrAppend(&all, all.empty() ? "" : ", ", known);
  const std::string hint = DidYouMean(name, names);
  return UsageError(
      StrCat("'", name, "' is no ", what, "; there are ", all, hint.empty() ? "" : "; ", hint));
}

absl::Status CheckSpec(const TrainingSpec& spec) {
  const RateSpec& rate = spec.rate;
  if (!(spec.loss_scale.scale >= 1) || spec.loss_scale.scale > kLargestLossScale ||
      spec.loss_scale.grow_every < 0) {
    return UsageError("a scale of losses is from 1 to 2^100");
  }
  if (spec.optimizer.accumulate < 1) return UsageError("gradients are of at least one step");
  const bool moves = spec.optimizer.kind == OptimizerKind::kMomentum ||
                     spec.optimizer.kind == OptimizerKind::kNesterov;
  if (moves && spec.optimizer.momentum == 0) {
    return UsageError("a momentum of 0 is none; the optimizer is sgd then");
  }
  if (rate.kind == RateKind::kCosine && rate.total <= rate.warmup) {
    return UsageError(StrCat("a cosine needs more updates (", rate.total, ") than the warm-up (",
                             rate.warmup, ") takes"));
  }
  if (rate.kind == RateKind::kStep && rate.every < 1) {
    return UsageError("a learning rate that falls in steps needs to know after how many updates");
  }
  return absl::OkStatus();
}

// --- Nodes that do something else in training ---------------------------------------------------

void SwitchDropout(GraphBuilder& builder, NodeId id, const Term& step, ValueId on, int64_t seed) {
  Node& node = builder.graph().node(id);
  node.inputs.resize(4);
  node.inputs[2] = on;
  node.inputs[3] = step.id;
  node.attrs.Set("seed", seed);
}

bool IsParam(const Graph& graph, ValueId id) { return graph.value(id).kind == ValueKind::kParam; }

// Its statistics become those of the batch, and the running ones move. Those that are no params, or
// that another node moves already, could not: then the node stays as it is.
bool SwitchBatchNorm(GraphBuilder& builder, NodeId id) {
  Graph& graph = builder.graph();
  const ValueId running[] = {graph.node(id).inputs[3], graph.node(id).inputs[4]};
  for (const ValueId param : running) {
    if (!IsParam(graph, param)) return false;
    for (const Update& update : graph.updates) {
      if (update.param == param) return false;
    }
  }
  graph.node(id).attrs.Set("training_mode", true);
  graph.node(id).outputs.resize(3);
  for (int i = 1; i < 3; ++i) {
    const ValueId moved = builder.NewResult(StrCat(graph.node(id).name, ".", i));
    Value& value = builder.graph().value(moved);
    value.producer = id;
    value.result_index = i;
    builder.graph().node(id).outputs[i] = moved;
    builder.AddUpdate(running[i - 1], moved);
  }
  return true;
}

void SwitchToTraining(GraphBuilder& builder, const Term& step, uint64_t seed,
                      std::vector<std::string>& notes) {
  ValueId on;
  auto next_seed = static_cast<int64_t>(seed);
  for (size_t n = 0; n < builder.graph().nodes.size(); ++n) {
    const NodeId id(n);
    const std::string op = builder.graph().node(id).op;
    if (op == "Dropout") {
      if (!on.valid()) on = builder.Constant("training", Tensor::Scalar(true));
      SwitchDropout(builder, id, step, on, next_seed++);
    } else if (op == "BatchNormalization" && !SwitchBatchNorm(builder, id)) {
      notes.push_back(StrCat("BatchNormalization '", builder.graph().node(id).name,
                             "' keeps its running statistics: they are no params of its own"));
    }
  }
}

// --- The parts together -------------------------------------------------------------------------

// Names params of a graph in training, in order.
std::vector<ValueId> TrainableParams(const Graph& graph) {
  std::vector<ValueId> params;
  for (const ValueId id : graph.params) {
    if (graph.value(id).trainable && IsFloat(graph.value(id).type.dtype)) params.push_back(id);
  }
  return params;
}

// Two updates of one param would contradict each other.
absl::Status CheckUpdatedOnce(const Graph& graph, ValueId param) {
  for (const Update& update : graph.updates) {
    if (update.param != param) continue;
    return UsageError(StrCat("param '", graph.value(param).name,
                             "' is trainable, but the graph updates it already, with '",
                             graph.value(update.value).name,
                             "'; make it not trainable, or take that update out"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TrainedParam>> DifferentiateParams(GraphBuilder& builder, ValueId loss,
                                                              std::vector<std::string>& notes) {
  const std::vector<ValueId> params = TrainableParams(builder.graph());
  if (params.empty()) {
    return UsageError("the graph has no trainable params: nothing could be trained");
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients,
                            AppendGradients(builder, loss, params));
  std::vector<TrainedParam> trained;
  for (size_t i = 0; i < params.size(); ++i) {
    const Value& param = builder.graph().value(params[i]);
    if (gradients[i].valid()) {
      MILLRACE_RETURN_IF_ERROR(CheckUpdatedOnce(builder.graph(), params[i]));
      trained.push_back({params[i], {&builder, gradients[i], param.type.dtype}});
    } else {
      notes.push_back(StrCat("param '", param.name, "' stays: the loss does not depend on it"));
    }
  }
  if (trained.empty()) {
    return UsageError("the loss depends on no trainable param: nothing could be trained");
  }
  return trained;
}

Term AddStepParam(GraphBuilder& builder) {
  DataSource zero;
  zero.kind = DataSource::Kind::kSplat;
  zero.tensor = Tensor::Scalar(int64_t{0});
  const TensorType type{DType::kI64, {}};
  return {&builder, builder.Param("train/step", type, zero, /*trainable=*/false), type.dtype};
}

Term AddRateParam(GraphBuilder& builder, double rate) {
  DataSource source;
  source.kind = DataSource::Kind::kSplat;
  source.tensor = Tensor::Scalar(static_cast<float>(rate));
  const TensorType type{DType::kF32, {}};
  return {&builder, builder.Param("train/learning_rate", type, source, /*trainable=*/false),
          type.dtype};
}

// In f32 or wider: in f16 a scale of 65536 is infinite.
Term Unscaled(const Term& gradient, const Term& scale) {
  const DType wide = SizeOf(gradient.dtype) < 4 ? DType::kF32 : gradient.dtype;
  return CastTo(CastTo(gradient, wide) / CastTo(scale, wide), gradient.dtype);
}

// Everything after the gradients, which are of the loss times `loss_scale` (a Term without builder:
// of the loss itself); gives the learning rate.
Term AppendStep(GraphBuilder& builder, const TrainingSpec& spec, const Term& step,
                const Term& loss_scale, std::vector<TrainedParam>& trained) {
  const int64_t accumulate = spec.optimizer.accumulate;
  Term updates = step;
  Term due{};
  if (accumulate > 1) {
    updates = step / Scalar(step, static_cast<double>(accumulate));
    const Term next = (step + 1) / Scalar(step, static_cast<double>(accumulate));
    due = Compare("Greater", next, updates);
    AppendAccumulation(builder, accumulate, due, trained);
  }
  std::vector<Term> gradients;
  for (const TrainedParam& t : trained) gradients.push_back(t.gradient);
  if (loss_scale.builder != nullptr) {
    for (Term& gradient : gradients) gradient = Unscaled(gradient, loss_scale);
    const Term finite = AllFinite(gradients);
    UpdateLossScale(spec.loss_scale, loss_scale, finite, due);
    due = due.builder == nullptr ? finite : Apply("And", {due, finite});
  }
  gradients = ClipGradients(spec.optimizer, gradients);
  for (size_t i = 0; i < trained.size(); ++i) trained[i].gradient = gradients[i];

  const Term base = AddRateParam(builder, spec.rate.rate);
  Term rate = LearningRateAt(spec.rate, base, updates);
  rate.id = builder.Op("Identity", {rate.id}, {}, "learning_rate");
  AppendOptimizer(builder, spec.optimizer, trained, rate, updates, due);
  builder.AddUpdate(step.id, (step + 1).id);
  return rate;
}

}  // namespace

absl::StatusOr<LossKind> ParseLossKind(std::string_view name) {
  static const KindNames<LossKind> kKinds = {
      {"softmax-cross-entropy", LossKind::kSoftmaxCrossEntropy},
      {"nll", LossKind::kNegativeLogLikelihood},
      {"mse", LossKind::kMeanSquaredError},
      {"bce", LossKind::kBinaryCrossEntropy},
      {"output", LossKind::kOutput}};
  return ParseKind(kKinds, "loss", name);
}

bool TakesLabels(LossKind kind) {
  return kind == LossKind::kSoftmaxCrossEntropy || kind == LossKind::kNegativeLogLikelihood;
}

absl::StatusOr<OptimizerKind> ParseOptimizerKind(std::string_view name) {
  static const KindNames<OptimizerKind> kKinds = {
      {"sgd", OptimizerKind::kSgd},           {"momentum", OptimizerKind::kMomentum},
      {"nesterov", OptimizerKind::kNesterov}, {"adagrad", OptimizerKind::kAdagrad},
      {"rmsprop", OptimizerKind::kRmsProp},   {"adam", OptimizerKind::kAdam},
      {"adamw", OptimizerKind::kAdamW}};
  return ParseKind(kKinds, "optimizer", name);
}

absl::StatusOr<RateKind> ParseRateKind(std::string_view name) {
  static const KindNames<RateKind> kKinds = {
      {"constant", RateKind::kConstant}, {"cosine", RateKind::kCosine}, {"step", RateKind::kStep}};
  return ParseKind(kKinds, "schedule of learning rates", name);
}

absl::StatusOr<TrainingGraph> BuildTrainingGraph(Graph graph, const TrainingSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
  TrainingGraph result;
  GraphBuilder builder(std::move(graph));
  const Term step = AddStepParam(builder);
  SwitchToTraining(builder, step, spec.seed, result.notes);
  MILLRACE_RETURN_IF_ERROR(InferTypes(builder.graph()));

  MILLRACE_ASSIGN_OR_RETURN(AppendedLoss loss, AppendLoss(builder, spec.loss, LossResult::kMean));
  for (std::string& note : loss.notes) result.notes.push_back(std::move(note));
  Term loss_scale{}, scaled_loss{&builder, loss.loss, builder.graph().value(loss.loss).type.dtype};
  if (spec.loss_scale.scale != 1 || spec.loss_scale.grow_every > 0) {
    loss_scale = AddLossScale(builder, spec.loss_scale);
    if (SizeOf(scaled_loss.dtype) < 4) scaled_loss = CastTo(scaled_loss, DType::kF32);
    scaled_loss = scaled_loss * CastTo(loss_scale, scaled_loss.dtype);
    MILLRACE_RETURN_IF_ERROR(InferTypes(builder.graph()));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<TrainedParam> trained,
                            DifferentiateParams(builder, scaled_loss.id, result.notes));
  for (const TrainedParam& t : trained) {
    result.trained.push_back(builder.graph().value(t.param).name);
  }
  const Term rate = AppendStep(builder, spec, step, loss_scale, trained);

  builder.graph().outputs = {loss.loss, rate.id};
  MILLRACE_RETURN_IF_ERROR(InferTypes(builder.graph()));
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(builder.graph(), "training"));
  result.loss = builder.graph().value(loss.loss).name;
  result.learning_rate = builder.graph().value(rate.id).name;
  result.step = builder.graph().value(step.id).name;
  if (loss.target.valid()) result.target = builder.graph().value(loss.target).name;
  result.graph = std::move(builder).Build();
  return result;
}

absl::StatusOr<EvaluationGraph> BuildEvaluationGraph(Graph graph, const LossSpec& spec) {
  EvaluationGraph result;
  GraphBuilder builder(std::move(graph));
  MILLRACE_ASSIGN_OR_RETURN(const AppendedLoss loss,
                            AppendLoss(builder, spec, LossResult::kPerSample));
  builder.graph().outputs = {loss.loss};
  builder.graph().updates.clear();
  result.loss = builder.graph().value(loss.loss).name;
  if (loss.target.valid()) result.target = builder.graph().value(loss.target).name;
  result.classes = loss.classes;
  if (loss.hits.valid()) {
    builder.graph().outputs.push_back(loss.hits);
    result.hits = builder.graph().value(loss.hits).name;
  }
  MILLRACE_RETURN_IF_ERROR(VerifyGraphAfter(builder.graph(), "evaluation"));
  result.graph = std::move(builder).Build();
  return result;
}

}  // namespace millrace
