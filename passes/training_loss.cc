// Losses are computed from what is most exact. A model that ends in Softmax or Sigmoid has a loss
// in the logarithm of its last result; where that rounds to 0 the logarithm is lost, and its
// gradient with it. What goes into the Softmax or Sigmoid says the same and keeps it: so the loss
// starts from there, and the last node remains for those who read the output.
#include "passes/training_loss.h"

#include <numeric>

#include "graph/strings.h"
#include "ops/gradient.h"
#include "ops/infer.h"

namespace millrace {
namespace {

constexpr double kLeastProbability = 1e-7;  // as far as f32 can tell from 1

// What the loss is of.
struct LossSource {
  Term value;
  Shape shape;
  int class_axis = 1;    // of classes
  bool is_log = false;   // LogSoftmax's
  bool is_logit = true;  // of BCE: goes through a Sigmoid first
};

absl::StatusOr<ValueId> FindLossOutput(const Graph& graph, const std::string& name) {
  if (graph.outputs.empty()) return UsageError("the graph has no outputs, so nothing to train for");
  if (name.empty()) return graph.outputs[0];
  std::vector<std::string> names;
  for (const ValueId id : graph.outputs) {
    if (graph.value(id).name == name) return id;
    names.push_back(graph.value(id).name);
  }
  const std::string hint = DidYouMean(name, names);
  return UsageError(StrCat("the graph has no output '", name, "'", hint.empty() ? "" : "; ", hint));
}

// The node that makes `id`, of `op`; nullptr: another one, or none.
const Node* ProducerOf(const Graph& graph, ValueId id, std::string_view op) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kResult || graph.node(value.producer).op != op) return nullptr;
  return &graph.node(value.producer);
}

LossSource SourceAt(GraphBuilder& builder, ValueId id) {
  const TensorType& type = builder.graph().value(id).type;
  return {{&builder, id, type.dtype}, type.shape};
}

// Classes are dim 1, as in ONNX; but in [N,positions,classes], as sequence models have it, dim 2.
int DefaultClassAxis(int rank) { return rank == 3 ? 2 : 1; }

absl::StatusOr<LossSource> ScoresOf(GraphBuilder& builder, ValueId output, LossKind kind,
                                    std::vector<std::string>& notes) {
  const Graph& graph = builder.graph();
  const TensorType& type = graph.value(output).type;
  if (!IsFloat(type.dtype) || type.shape.rank() < 2) {
    return UsageError(StrCat("output '", graph.value(output).name, "' is ", ToString(type),
                             "; a loss of labels needs scores [N,classes] or [N,...,classes]"));
  }
  int axis = DefaultClassAxis(type.shape.rank());
  LossSource source = SourceAt(builder, output);
  source.is_log = kind == LossKind::kNegativeLogLikelihood;
  for (const std::string_view op : {"Softmax", "LogSoftmax"}) {
    const Node* node = ProducerOf(graph, output, op);
    if (node == nullptr) continue;
    axis = static_cast<int>(node->attrs.Int("axis", -1));
    if (axis < 0) axis += type.shape.rank();
    source = SourceAt(builder, node->inputs[0]);
    notes.push_back(StrCat("the loss is taken of '", graph.value(node->inputs[0]).name,
                           "', which goes into ", op, " '", node->name,
                           "': the same, and exact where probabilities are tiny"));
    break;
  }
  if (axis == 0) return UsageError("classes are dim 0 of the output, where samples should be");
  source.class_axis = axis;
  return source;
}

// Scores [N,C,...], as the loss ops want them. Classes that are last become dim 1 by reshaping:
// each position counts as a sample of its own.
Term WithClassesSecond(const LossSource& source) {
  const int rank = source.shape.rank();
  if (source.class_axis == 1) return source.value;
  Term value = source.value;
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + source.class_axis);
  perm.push_back(source.class_axis);
  if (source.class_axis != rank - 1) value = Transpose(value, perm);
  const int64_t classes = source.shape[source.class_axis];
  return Reshape(value, {classes == 0 ? 0 : NumElements(source.shape) / classes, classes});
}

Shape LabelShape(const LossSource& source) {
  Shape shape;
  for (int d = 0; d < source.shape.rank(); ++d) {
    if (d != source.class_axis) shape.push_back(source.shape[d]);
  }
  return shape;
}

absl::StatusOr<ValueId> TargetInput(GraphBuilder& builder, const LossSpec& spec,
                                    const TensorType& type) {
  if (spec.target_input.empty()) {
    return builder.Input(TakesLabels(spec.kind) ? "labels" : "target", type);
  }
  const Graph& graph = builder.graph();
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    names.push_back(input.name);
    if (input.name != spec.target_input) continue;
    if (input.type == type) return id;
    const bool same_size = NumElements(input.type.shape) == NumElements(type.shape);
    if (input.type.dtype == type.dtype && same_size) return id;  // reshaped by the caller
    return UsageError(StrCat("the target must be ", ToString(type), ", but input '", input.name,
                             "' is ", ToString(input.type)));
  }
  const std::string hint = DidYouMean(spec.target_input, names);
  return UsageError(
      StrCat("the graph has no input '", spec.target_input, "'", hint.empty() ? "" : "; ", hint));
}

// The mean over all dims but the first.
Term SampleMean(const Term& x, const Shape& shape) {
  std::vector<int64_t> axes(std::max(0, shape.rank() - 1));
  std::iota(axes.begin(), axes.end(), 1);
  if (axes.empty()) return shape.rank() == 0 ? Reshape(x, {1}) : x;
  const int64_t count = shape[0] == 0 ? 1 : NumElements(shape) / shape[0];
  return Sum(x, axes, /*keep=*/false) / static_cast<double>(std::max<int64_t>(1, count));
}

Term Mean(const Term& x) {
  Attrs attrs;
  attrs.Set("keepdims", false);
  return Apply("ReduceMean", {x}, std::move(attrs));
}

absl::StatusOr<AppendedLoss> AppendLabelLoss(GraphBuilder& builder, const LossSpec& spec,
                                             ValueId output, LossResult result) {
  AppendedLoss appended;
  MILLRACE_ASSIGN_OR_RETURN(const LossSource source,
                            ScoresOf(builder, output, spec.kind, appended.notes));
  const Shape label_shape = LabelShape(source);
  appended.classes = source.shape[source.class_axis];
  const TensorType label_type{DType::kI64, label_shape};
  MILLRACE_ASSIGN_OR_RETURN(appended.target, TargetInput(builder, spec, label_type));
  const Term scores = WithClassesSecond(source);
  Term labels{&builder, appended.target, DType::kI64};
  const bool flat = source.class_axis != 1;
  if (flat) {
    labels = Reshape(labels, {NumElements(label_shape)});
  } else if (builder.graph().value(appended.target).type.shape != label_shape) {
    labels = Reshape(labels, label_shape);
  }
  Attrs attrs;
  attrs.Set("reduction", std::string(result == LossResult::kMean ? "mean" : "none"));
  Term loss = Apply(source.is_log ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss",
                    {scores, labels}, std::move(attrs));
  if (result == LossResult::kPerSample) {
    Attrs pick;
    pick.Set("axis", int64_t{1});
    pick.Set("keepdims", false);
    Term best = Apply("ArgMax", {scores}, std::move(pick));
    Term hits = CastTo(EqualTo(best, labels), DType::kF32);
    if (flat) {
      loss = Reshape(loss, label_shape);
      hits = Reshape(hits, label_shape);
    }
    loss = CastTo(SampleMean(loss, label_shape), DType::kF32);
    appended.hits = SampleMean(hits, label_shape).id;
  }
  appended.loss = loss.id;
  return appended;
}

// Of a logit z: -t log sigmoid(z) - (1 - t) log(1 - sigmoid(z)), where -log sigmoid(z) =
// softplus(-z) and 1 - sigmoid(z) = sigmoid(-z). Each term is smooth: max(z, 0) - z t +
// softplus(-|z|), the same in fewer nodes, has parts with a kink at 0, where training starts.
Term BinaryCrossEntropy(const LossSource& source, const Term& target) {
  const Term& z = source.value;
  if (source.is_logit) {
    return target * Apply("Softplus", {-z}) + (1 - target) * Apply("Softplus", {z});
  }
  const Term p = Apply("Clip", {z, Scalar(z, kLeastProbability), Scalar(z, 1 - kLeastProbability)});
  return -(target * Apply("Log", {p}) + (1 - target) * Apply("Log", {1 - p}));
}

absl::Status CheckIsFloat(const Graph& graph, ValueId output) {
  const Value& value = graph.value(output);
  if (IsFloat(value.type.dtype)) return absl::OkStatus();
  return UsageError(
      StrCat("output '", value.name, "' is ", ToString(value.type), "; the loss needs floats"));
}

Term Summarized(const Term& loss, const Shape& shape, LossResult result) {
  return result == LossResult::kMean ? Mean(loss) : CastTo(SampleMean(loss, shape), DType::kF32);
}

absl::StatusOr<AppendedLoss> AppendOutputLoss(GraphBuilder& builder, const LossSpec& spec,
                                              ValueId output, LossResult result) {
  MILLRACE_RETURN_IF_ERROR(CheckIsFloat(builder.graph(), output));
  if (!spec.target_input.empty()) {
    return UsageError("a loss that is the output has no target; the graph reads what it compares");
  }
  AppendedLoss appended;
  const LossSource source = SourceAt(builder, output);
  appended.loss = Summarized(source.value, source.shape, result).id;
  return appended;
}

absl::StatusOr<AppendedLoss> AppendTensorLoss(GraphBuilder& builder, const LossSpec& spec,
                                              ValueId output, LossResult result) {
  AppendedLoss appended;
  const Graph& graph = builder.graph();
  const TensorType type = graph.value(output).type;
  MILLRACE_RETURN_IF_ERROR(CheckIsFloat(graph, output));
  LossSource source = SourceAt(builder, output);
  source.is_logit = false;
  if (spec.kind == LossKind::kBinaryCrossEntropy) {
    if (const Node* sigmoid = ProducerOf(graph, output, "Sigmoid")) {
      source = SourceAt(builder, sigmoid->inputs[0]);
      appended.notes.push_back(StrCat(
          "the loss is taken of '", graph.value(sigmoid->inputs[0]).name,
          "', which goes into Sigmoid '", sigmoid->name, "': the same, and exact near 0 and 1"));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(appended.target, TargetInput(builder, spec, type));
  Term target{&builder, appended.target, type.dtype};
  if (builder.graph().value(appended.target).type.shape != type.shape) {
    target = Reshape(target, type.shape);
  }
  Term loss{};
  if (spec.kind == LossKind::kBinaryCrossEntropy) {
    loss = BinaryCrossEntropy(source, target);
  } else {
    const Term difference = source.value - target;
    loss = difference * difference;
  }
  appended.loss = Summarized(loss, type.shape, result).id;
  return appended;
}

}  // namespace

absl::StatusOr<AppendedLoss> AppendLoss(GraphBuilder& builder, const LossSpec& spec,
                                        LossResult result) {
  MILLRACE_ASSIGN_OR_RETURN(const ValueId output, FindLossOutput(builder.graph(), spec.output));
  if (builder.graph().value(output).bounded) {
    return UsageError(StrCat("the size of output '", builder.graph().value(output).name,
                             "' is known only when the graph runs"));
  }
  const auto append = spec.kind == LossKind::kOutput ? AppendOutputLoss
                      : TakesLabels(spec.kind)       ? AppendLabelLoss
                                                     : AppendTensorLoss;
  MILLRACE_ASSIGN_OR_RETURN(AppendedLoss appended, append(builder, spec, output, result));
  // A node of its own, so that it has its own name and is no output twice.
  appended.loss = builder.Op("Identity", {appended.loss}, {}, "loss");
  if (appended.hits.valid()) appended.hits = builder.Op("Identity", {appended.hits}, {}, "hits");
  MILLRACE_RETURN_IF_ERROR(InferTypes(builder.graph()));
  return appended;
}

}  // namespace millrace
