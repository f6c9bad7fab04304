// Geometry, signature, inference, gradient builder, rules. The walk is in recurrent_walk.cc.
#include "ops/recurrent.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// --- Activations -------------------------------------------------------------------------------

struct ActivationSpec {
  std::string_view name;
  Activation::Kind kind;
  bool has_alpha = false, has_beta = false;
  double alpha = 0, beta = 0;  // defaults, as those of the ONNX ops
};
using enum Activation::Kind;
constexpr ActivationSpec kActivations[] = {
    {"Affine", kAffine, true, true, 1, 0},
    {"Elu", kElu, true, false, 1, 0},
    {"HardSigmoid", kHardSigmoid, true, true, 0.2, 0.5},
    {"LeakyRelu", kLeakyRelu, true, false, 0.01, 0},
    {"Relu", kRelu},
    {"ScaledTanh", kScaledTanh, true, true, 1, 1},
    {"Sigmoid", kSigmoid},
    {"Softplus", kSoftplus},
    {"Softsign", kSoftsign},
    {"Tanh", kTanh},
    {"ThresholdedRelu", kThresholdedRelu, true, false, 1, 0},
};

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

absl::StatusOr<ActivationSpec> FindActivation(std::string_view name) {
  std::vector<std::string> names;
  for (const ActivationSpec& spec : kActivations) {
    if (SameIgnoringCase(spec.name, name)) return spec;
    names.emplace_back(spec.name);
  }
  return BadInputError(StrCat("unknown activation '", name, "' ", DidYouMean(name, names)));
}

template <typename T>
std::vector<T> ListAttr(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.Find(name);
  return value == nullptr ? std::vector<T>() : std::get<std::vector<T>>(*value);
}

// Alphas and betas are handed out, in order, to the functions that have such a number.
absl::StatusOr<std::vector<Activation>> ActivationsOf(const RecurrentKind& kind, const Attrs& attrs,
                                                      int64_t directions) {
  std::vector<std::string> names = ListAttr<std::string>(attrs, "activations");
  const size_t count = kind.activations.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (size_t i = 0; i < count; ++i) {
      names.push_back(kind.activations[i % kind.activations.size()]);
    }
  }
  if (names.size() != count) {
    return BadInputError(StrCat("'activations' has ", names.size(), " names, expected are ", count,
                                ", ", kind.activations.size(), " for each direction"));
  }
  const auto alphas = ListAttr<double>(attrs, "activation_alpha");
  const auto betas = ListAttr<double>(attrs, "activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    MILLRACE_ASSIGN_OR_RETURN(const ActivationSpec spec, FindActivation(name));
    Activation a = {spec.kind, spec.alpha, spec.beta};
    if (spec.has_alpha && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (spec.has_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
    activations.push_back(a);
  }
  return activations;
}

// --- Shapes ------------------------------------------------------------------------------------

absl::Status CheckShape(const InferContext& c, int i, std::string_view name,
                        const Shape& expected) {
  if (!c.has_input(i) || c.input(i).shape == expected) return absl::OkStatus();
  return BadInputError(
      StrCat("'", name, "' must be ", ToString(expected), ", but is ", ToString(c.input(i).shape)));
}

absl::StatusOr<Recurrent> CheckOperands(const RecurrentKind& kind, const InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Recurrent r,
                            RecurrentOf(kind, c.attrs(), c.input(kX).shape, c.input(kR).shape));
  const int64_t rows = kind.gates * r.hidden;
  const Shape state = r.StateShape();
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kW, "W", {r.directions, rows, r.inputs}));
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kR, "R", {r.directions, rows, r.hidden}));
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kB, "B", {r.directions, 2 * rows}));
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kSequenceLens, "sequence_lens", {r.batch}));
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kInitialH, "initial_h", state));
  if (!kind.has_cell) return r;
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kInitialC, "initial_c", state));
  MILLRACE_RETURN_IF_ERROR(CheckShape(c, kP, "P", {r.directions, 3 * r.hidden}));
  return r;
}

std::vector<OperandSpec> RecurrentInputs(const RecurrentKind& kind) {
  std::vector<OperandSpec> inputs;
  const auto add = [&](std::string name, bool optional, std::string doc) {
    inputs.push_back({.name = std::move(name),
                      .dtypes = FloatTypes(),
                      .optional = optional,
                      .same_as = "T",
                      .doc = std::move(doc)});
  };
  const std::string rows = kind.gates == 1 ? "hidden" : StrCat(kind.gates, "*hidden");
  add("X", false, "[steps,batch,inputs]; layout 1: [batch,steps,inputs]");
  add("W", false, StrCat("[directions,", rows, ",inputs]"));
  add("R", false, StrCat("[directions,", rows, ",hidden]"));
  add("B", true, StrCat("[directions,", 2 * kind.gates, "*hidden], of W and then of R; absent: 0"));
  inputs.push_back({.name = "sequence_lens",
                    .dtypes = {DType::kI32},
                    .optional = true,
                    .doc = "[batch], steps of each row; absent: all"});
  add("initial_h", true, "[directions,batch,hidden]; layout 1: [batch,directions,hidden]");
  if (kind.has_cell) {
    add("initial_c", true, "as initial_h");
    add("P", true, "[directions,3*hidden], peepholes of i, o, f; absent: 0");
  }
  return inputs;
}

std::vector<OperandSpec> RecurrentOutputs(const RecurrentKind& kind) {
  std::vector<OperandSpec> outputs;
  const auto add = [&](std::string name, std::string doc) {
    outputs.push_back(
        {.name = std::move(name), .optional = true, .same_as = "T", .doc = std::move(doc)});
  };
  add("Y", "[steps,directions,batch,hidden]; layout 1: [batch,steps,directions,hidden]");
  add("Y_h", "the last state, as initial_h");
  if (kind.has_cell) add("Y_c", "the last cell state, as initial_h");
  return outputs;
}

std::vector<AttrSpec> RecurrentAttrs() {
  return {{.name = "activations",
           .kind = AttrKind::kStrings,
           .doc = "names for each direction: Affine, Elu, HardSigmoid, LeakyRelu, Relu, "
                  "ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu"},
          {.name = "activation_alpha",
           .kind = AttrKind::kFloats,
           .doc = "for the activations that have an alpha, in order; absent: ONNX's defaults"},
          {.name = "activation_beta", .kind = AttrKind::kFloats, .doc = "likewise"},
          {.name = "clip",
           .kind = AttrKind::kFloat,
           .doc = "what activations are given is kept in [-clip, clip]; absent: as it is"},
          {.name = "direction",
           .kind = AttrKind::kString,
           .default_value = "forward",
           .choices = {"forward", "reverse", "bidirectional"}},
          {.name = "hidden_size", .kind = AttrKind::kInt, .doc = "if given, that of R"},
          {.name = "layout",
           .kind = AttrKind::kInt,
           .default_value = int64_t{0},
           .doc = "1: the batch is the first dim of X, Y and states"}};
}

// The float operands that have a gradient, in the order of the gradient op's results.
std::vector<int> DifferentiableInputs(const RecurrentKind& kind) {
  std::vector<int> inputs = {kX, kW, kR, kB, kInitialH};
  if (kind.has_cell) inputs.insert(inputs.end(), {kInitialC, kP});
  return inputs;
}

}  // namespace

const RecurrentKind& RnnKind() {
  static const RecurrentKind& kind = *new RecurrentKind{"RNN", 1, {"Tanh"}, false};
  return kind;
}

const RecurrentKind& GruKind() {
  static const RecurrentKind& kind = *new RecurrentKind{"GRU", 3, {"Sigmoid", "Tanh"}, false};
  return kind;
}

const RecurrentKind& LstmKind() {
  static const RecurrentKind& kind =
      *new RecurrentKind{"LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}, true};
  return kind;
}

double Activation::operator()(double x) const {
  switch (kind) {
    case kAffine:
      return alpha * x + beta;
    case kElu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case kHardSigmoid:
      return std::max(0.0, std::min(1.0, alpha * x + beta));
    case kLeakyRelu:
      return x >= 0 ? x : alpha * x;
    case kRelu:
      return x > 0 ? x : 0;
    case kScaledTanh:
      return alpha * std::tanh(beta * x);
    case kSigmoid:
      return 1 / (1 + std::exp(-x));
    case kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case kSoftsign:
      return x / (1 + std::abs(x));
    case kTanh:
      return std::tanh(x);
    case kThresholdedRelu:
      return x > alpha ? x : 0;
  }
  return 0;
}

double Activation::Slope(double x) const {
  const double y = (*this)(x);
  switch (kind) {
    case kAffine:
      return alpha;
    case kElu:
      return x >= 0 ? 1 : y + alpha;
    case kHardSigmoid:
      return y > 0 && y < 1 ? alpha : 0;
    case kLeakyRelu:
      return x >= 0 ? 1 : alpha;
    case kRelu:
      return x > 0 ? 1 : 0;
    case kScaledTanh:
      return alpha == 0 ? 0 : beta * (alpha - y * y / alpha);
    case kSigmoid:
      return y * (1 - y);
    case kSoftplus:
      return 1 / (1 + std::exp(-x));
    case kSoftsign:
      return 1 / ((1 + std::abs(x)) * (1 + std::abs(x)));
    case kTanh:
      return 1 - y * y;
    case kThresholdedRelu:
      return x > alpha ? 1 : 0;
  }
  return 0;
}

Shape Recurrent::YShape() const {
  return batch_first ? Shape{batch, steps, directions, hidden}
                     : Shape{steps, directions, batch, hidden};
}

Shape Recurrent::StateShape() const {
  return batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
}

absl::StatusOr<Recurrent> RecurrentOf(const RecurrentKind& kind, const Attrs& attrs, const Shape& x,
                                      const Shape& r) {
  if (x.rank() != 3) return BadInputError(StrCat("X must have rank 3, but has rank ", x.rank()));
  if (r.rank() != 3) return BadInputError(StrCat("R must have rank 3, but has rank ", r.rank()));
  const int64_t layout = attrs.Int("layout", 0);
  if (layout != 0 && layout != 1) {
    return BadInputError(StrCat("'layout' is ", layout, ", known are 0 and 1"));
  }
  Recurrent rec;
  rec.batch_first = layout == 1;
  rec.steps = x[layout == 1 ? 1 : 0];
  rec.batch = x[layout == 1 ? 0 : 1];
  rec.inputs = x[2];
  rec.hidden = r[2];
  const std::string direction = attrs.String("direction", "forward");
  rec.directions = direction == "bidirectional" ? 2 : 1;
  rec.reversed = direction == "reverse";
  rec.clip = attrs.Float("clip", 0);
  if (rec.clip < 0 || std::isnan(rec.clip)) {
    return BadInputError(StrCat("'clip' is ", rec.clip, ", expected is a positive number"));
  }
  if (const int64_t size = attrs.Int("hidden_size", rec.hidden); size != rec.hidden) {
    return BadInputError(StrCat("'hidden_size' is ", size, ", but R is ", ToString(r)));
  }
  MILLRACE_ASSIGN_OR_RETURN(rec.activations, ActivationsOf(kind, attrs, rec.directions));
  return rec;
}

absl::Status InferRecurrent(const RecurrentKind& kind, InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Recurrent r, CheckOperands(kind, c));
  const DType dtype = c.input(kX).dtype;
  c.set_output(0, {dtype, r.YShape()});
  for (int i = 1; i < kind.num_outputs(); ++i) c.set_output(i, {dtype, r.StateShape()});
  return absl::OkStatus();
}

absl::Status InferRecurrentGrad(const RecurrentKind& kind, InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Recurrent r, CheckOperands(kind, c));
  for (int i = 0; i < kind.num_outputs(); ++i) {
    const std::string name = StrCat("d", RecurrentOutputs(kind)[i].name);
    MILLRACE_RETURN_IF_ERROR(
        CheckShape(c, kind.num_inputs() + i, name, i == 0 ? r.YShape() : r.StateShape()));
  }
  const DType dtype = c.input(kX).dtype;
  const int64_t rows = kind.gates * r.hidden;
  const Shape grads[] = {c.input(kX).shape,           c.input(kW).shape, c.input(kR).shape,
                         {r.directions, 2 * rows},    r.StateShape(),    r.StateShape(),
                         {r.directions, 3 * r.hidden}};
  for (size_t i = 0; i < DifferentiableInputs(kind).size(); ++i) {
    c.set_output(static_cast<int>(i), {dtype, grads[i]});
  }
  return absl::OkStatus();
}

absl::Status RecurrentGradient(const RecurrentKind& kind, GradientContext& c) {
  Forward f(c);
  std::vector<ValueId> operands;
  for (int i = 0; i < kind.num_inputs(); ++i) {
    operands.push_back(f.has_input(i) ? f.input(i).id : ValueId());
  }
  for (int i = 0; i < kind.num_outputs(); ++i) {
    operands.push_back(f.has_output_grad(i) ? f.output_grad(i).id : ValueId());
  }
  while (!operands.back().valid()) operands.pop_back();
  std::vector<int> inputs = DifferentiableInputs(kind);
  while (!inputs.empty() && !f.wants(inputs.back())) inputs.pop_back();
  if (inputs.empty()) return absl::OkStatus();
  const Node& node = c.builder.AddNode(StrCat("grad.", kind.name), operands, f.attrs(), "",
                                       static_cast<int>(inputs.size()));
  const std::vector<ValueId> grads = node.outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (f.wants(inputs[i])) f.set_grad(inputs[i], {&c.builder, grads[i], DType::kF32});
  }
  return absl::OkStatus();
}

std::vector<ShardingRule> RecurrentRules(const RecurrentKind& kind, const NodeQuery& query) {
  const bool batch_first = query.attrs.Int("layout", 0) == 1;
  const AxisSharding x = ShardDim(batch_first ? 0 : 1), y = ShardDim(batch_first ? 0 : 2);
  const AxisSharding state = x, weights = Replicate(), sum = Partial(Reduction::kSum);
  if (!Divisible(query.inputs[kX]->shape, x.dim)) return {};
  std::vector<AxisSharding> inputs = {x, weights, weights, weights, ShardDim(0), state};
  if (kind.has_cell) inputs.insert(inputs.end(), {state, weights});
  std::vector<AxisSharding> outputs(static_cast<size_t>(kind.num_outputs()), state);
  outputs[0] = y;
  if (query.op.starts_with("grad.")) {
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    outputs = {x, sum, sum, sum, state};
    if (kind.has_cell) outputs.insert(outputs.end(), {state, sum});
  }
  ShardingRule rule = ReplicateAll(query, "split the batch");
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    if (query.inputs[i].has_value()) rule.inputs[i] = inputs[i];
  }
  for (size_t i = 0; i < query.outputs.size(); ++i) rule.outputs[i] = outputs[i];
  return {rule};
}

// A multiply-add for each weight, step and row.
Work RecurrentWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape &x = query.inputs[kX]->shape, &w = query.inputs[kW]->shape,
              &r = query.inputs[kR]->shape;
  const double weights = static_cast<double>(NumElements(w)) + static_cast<double>(NumElements(r));
  work.flops = 2 * weights * static_cast<double>(x[0]) * static_cast<double>(x[1]);
  // Again, and then by states and by weights.
  if (query.op.starts_with("grad.")) work.flops *= 4;
  return work;
}

OpDef RecurrentSignature(const RecurrentKind& kind, std::string doc) {
  return {.name = std::string(kind.name),
          .doc = std::move(doc),
          .inputs = RecurrentInputs(kind),
          .outputs = RecurrentOutputs(kind),
          .attrs = RecurrentAttrs(),
          .infer = nullptr};
}

OpDef RecurrentGradSignature(const RecurrentKind& kind) {
  OpDef op = RecurrentSignature(kind, StrCat("The gradient of ", kind.name));
  op.name = StrCat("grad.", kind.name);
  const std::vector<OperandSpec> results = std::move(op.outputs);
  op.outputs.clear();
  for (const int i : DifferentiableInputs(kind)) {
    op.outputs.push_back(
        {.name = StrCat("d", op.inputs[i].name), .optional = true, .same_as = "T"});
  }
  for (const OperandSpec& result : results) {
    op.inputs.push_back({.name = StrCat("d", result.name),
                         .dtypes = FloatTypes(),
                         .optional = true,
                         .same_as = "T"});
  }
  return op;
}

void AddFlag(const RecurrentLayer& layer, OpDef& op) {
  if (layer.flag.empty()) return;
  op.attrs.push_back({.name = std::string(layer.flag),
                      .kind = AttrKind::kBool,
                      .default_value = false,
                      .doc = std::string(layer.flag_doc)});
}

}  // namespace millrace
