// BatchNormalization: Y = (X - mean) / sqrt(variance + epsilon) * scale + B for each channel, dim 1
// of X. The statistics are those given, or, in training mode, those of the batch, which then also
// move the running ones: running = given * momentum + batch * (1 - momentum).
//
// grad.BatchNormalization is the gradient through the batch's statistics. It computes them again:
// it reads X in any case, and a channel rarely leaves the cache between the two sweeps.
#include <array>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/normalization.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr double kMomentum = 0.9;

// X as [batch, channels, positions]; a vector is one channel.
struct Channels {
  int64_t batch = 0, channels = 1, positions = 1;
  int64_t count() const { return batch * positions; }  // of a channel
};

Channels ChannelsOf(const Shape& x) {
  Channels c;
  c.batch = x[0];
  if (x.rank() > 1) {
    c.channels = x[1];
    c.positions = ElementsFrom(x, 2);
  }
  if (c.positions == 0) c.batch = 0;
  return c;
}

// f(element) for each of a channel.
template <typename F>
void ForEachElement(const Channels& c, int64_t channel, F&& f) {
  for (int64_t n = 0; n < c.batch; ++n) {
    const int64_t start = (n * c.channels + channel) * c.positions;
    for (int64_t i = start; i < start + c.positions; ++i) f(i);
  }
}

template <typename T>
Moments BatchMoments(const Channels& c, int64_t channel, const T* x) {
  return MomentsOf(c.count(), [&](auto&& f) {
    ForEachElement(c, channel, [&](int64_t i) { f(static_cast<double>(x[i])); });
  });
}

// Scale, B, means and variances have an element for each channel.
absl::Status CheckChannels(const InferContext& c, int x, int first, int last) {
  const Shape& shape = c.input(x).shape;
  if (shape.rank() == 0) return BadInputError("X must have a batch dim, but has rank 0");
  const Shape per_channel{shape.rank() > 1 ? shape[1] : 1};
  for (int i = first; i <= last; ++i) {
    if (c.input(i).shape == per_channel) continue;
    return BadInputError(StrCat("operands per channel must be ", ToString(per_channel),
                                ", but operand ", i, " is ", ToString(c.input(i).shape)));
  }
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckChannels(c, 0, 1, 4));
  if (!c.attrs().Bool("training_mode", false) && (c.has_output(1) || c.has_output(2))) {
    return BadInputError("running statistics are results of training mode only");
  }
  c.set_output(0, c.input(0));
  c.set_output(1, c.input(3));
  c.set_output(2, c.input(4));
  return absl::OkStatus();
}

bool Wants(const ReferenceContext& c, size_t output) {
  return output < c.outputs.size() && c.outputs[output].has_data();
}

template <typename T>
void NormalizeChannel(const Channels& view, int64_t channel, const ReferenceContext& c,
                      const Moments& moments) {
  const T* x = c.inputs[0].data<T>().data();
  T* y = c.outputs[0].mutable_data<T>().data();
  const double inverse =
      1 / std::sqrt(moments.variance + c.attrs.Float("epsilon", kNormalizationEpsilon));
  const double scale = c.inputs[1].AsDouble(channel), bias = c.inputs[2].AsDouble(channel);
  ForEachElement(view, channel, [&](int64_t i) {
    y[i] = Narrow<T>((static_cast<double>(x[i]) - moments.mean) * inverse * scale + bias);
  });
}

absl::Status Reference(const ReferenceContext& c) {
  const Channels view = ChannelsOf(c.inputs[0].shape());
  const bool training = c.attrs.Bool("training_mode", false);
  const double momentum = c.attrs.Float("momentum", kMomentum);
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t channel = 0; channel < view.channels; ++channel) {
      const Moments given = {c.inputs[3].AsDouble(channel), c.inputs[4].AsDouble(channel)};
      const Moments used =
          training ? BatchMoments(view, channel, c.inputs[0].data<T>().data()) : given;
      const auto moved = [&](double from, double to) {
        return from * momentum + to * (1 - momentum);
      };
      if (Wants(c, 1)) c.outputs[1].Set(channel, moved(given.mean, used.mean));
      if (Wants(c, 2)) c.outputs[2].Set(channel, moved(given.variance, used.variance));
      if (Wants(c, 0)) NormalizeChannel<T>(view, channel, c, used);
    }
    return absl::OkStatus();
  });
}

// --- Gradient ----------------------------------------------------------------------------------

// What both modes start from. Per channel: a vector as [C,1...], beside X.
class BatchNormalizationGradient {
 public:
  explicit BatchNormalizationGradient(Forward& f) : f_(f), type_(f.input_type(0)) {
    for (int d = 0; d < type_.shape.rank(); ++d) {
      const bool channels = d == 1;
      if (!channels) axes_.push_back(d);
      if (d > 0) per_channel_.push_back(channels ? type_.shape[1] : 1);
    }
  }

  // Statistics are constants.
  void Inference() {
    const double epsilon = f_.attrs().Float("epsilon", kNormalizationEpsilon);
    const Term dy = f_.output_grad(0), scale = PerChannel(f_.input(1));
    const Term r = InverseRoot(PerChannel(f_.input(4)), epsilon);
    const Term z = (f_.input(0) - PerChannel(f_.input(3))) * r;
    if (f_.wants(0)) f_.set_grad(0, dy * (scale * r));
    if (f_.wants(1)) SetVector(1, SumUp(dy * z));
    if (f_.wants(2)) SetVector(2, SumUp(dy));
    if (f_.wants(3)) SetVector(3, -(SumUp(dy) * scale * r));
    if (f_.wants(4)) SetVector(4, SumUp(dy * z) * scale * r * r * -0.5);
  }

  void Training() {
    std::optional<Term> dx;
    if (f_.has_output_grad(0)) {
      Attrs attrs;
      attrs.Set("epsilon", f_.attrs().Float("epsilon", kNormalizationEpsilon));
      const Term dy = f_.output_grad(0);
      const Node& node = dy.builder->AddNode("grad.BatchNormalization",
                                             {dy.id, f_.input(0).id, f_.input(1).id}, attrs, "", 3);
      const std::vector<ValueId> grads = node.outputs;
      dx = Term{dy.builder, grads[0], dy.dtype};
      for (int i = 1; i <= 2; ++i) {
        if (f_.wants(i)) f_.set_grad(i, {dy.builder, grads[i], f_.input_type(i).dtype});
      }
    }
    AddRunning(dx);
    if (f_.wants(0) && dx.has_value()) f_.set_grad(0, *dx);
  }

 private:
  // Through running = given * momentum + batch * (1 - momentum): d mean / dx = 1 / n,
  // d variance / dx = 2 (x - mean) / n.
  void AddRunning(std::optional<Term>& dx) {
    const double momentum = f_.attrs().Float("momentum", kMomentum);
    const auto count = static_cast<double>(std::max<int64_t>(1, ChannelsOf(type_.shape).count()));
    const auto add = [&](const Term& term) { dx = dx.has_value() ? *dx + term : term; };
    for (int i = 1; i <= 2; ++i) {
      if (!f_.has_output_grad(i)) continue;
      if (f_.wants(i + 2)) f_.set_grad(i + 2, f_.output_grad(i) * momentum);
      if (!f_.wants(0)) continue;
      const Term share = PerChannel(f_.output_grad(i)) * ((1 - momentum) / count);
      const Term x = f_.input(0);
      add(i == 1 ? ExpandTo(share, type_.shape) : share * 2.0 * (x - Mean(x, axes_)));
    }
  }

  Term PerChannel(const Term& vector) const {
    return CastTo(Reshape(vector, per_channel_), type_.dtype);
  }
  Term SumUp(const Term& x) const { return Reshape(Sum(x, axes_, /*keep=*/true), per_channel_); }
  void SetVector(int i, const Term& per_channel) {
    f_.set_grad(i, CastTo(Reshape(per_channel, f_.input_type(i).shape), f_.input_type(i).dtype));
  }

  Forward& f_;
  const TensorType type_;
  std::vector<int64_t> axes_;  // all but the channels
  Shape per_channel_;
};

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  BatchNormalizationGradient gradient(f);
  if (f.attrs().Bool("training_mode", false)) {
    gradient.Training();
  } else if (f.has_output_grad(0)) {
    gradient.Inference();
  }
  return absl::OkStatus();
}

// Channels can always be cut: all of X's, and of the operands per channel. Given statistics leave
// every other dim free too; a batch's do not.
std::vector<ShardingRule> RulesFor(const NodeQuery& query, const Shape& x, bool any_dim) {
  std::vector<ShardingRule> rules;
  for (int d = 0; d < x.rank(); ++d) {
    if (!Divisible(x, d) || (d != 1 && !any_dim)) continue;
    ShardingRule rule = ReplicateAll(query, d == 1 ? "split channels" : StrCat("split dim ", d));
    for (auto [types, shardings] :
         {std::pair(&query.inputs, &rule.inputs), std::pair(&query.outputs, &rule.outputs)}) {
      for (size_t i = 0; i < types->size(); ++i) {
        if (!(*types)[i].has_value()) continue;
        if ((*types)[i]->shape == x) {
          (*shardings)[i] = ShardDim(d);
        } else if (d == 1) {
          (*shardings)[i] = ShardDim(0);
        }
      }
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const Shape& x = query.inputs[0]->shape;
  const bool any_dim = !query.attrs.Bool("training_mode", false) && x.rank() > 1;
  return RulesFor(query, x, any_dim);
}

// --- grad.BatchNormalization -------------------------------------------------------------------

absl::Status GradInfer(InferContext& c) {
  if (c.input(0).shape != c.input(1).shape) {
    return BadInputError(StrCat("dY must have the shape of X, ", ToString(c.input(1).shape),
                                ", but has ", ToString(c.input(0).shape)));
  }
  MILLRACE_RETURN_IF_ERROR(CheckChannels(c, 1, 2, 2));
  c.set_output(0, c.input(1));
  c.set_output(1, c.input(2));
  c.set_output(2, c.input(2));
  return absl::OkStatus();
}

// dx = scale r (dy - mean(dy) - z mean(dy z)), d scale = sum(dy z), dB = sum(dy).
absl::Status GradReference(const ReferenceContext& c) {
  const Channels view = ChannelsOf(c.inputs[1].shape());
  const double epsilon = c.attrs.Float("epsilon", kNormalizationEpsilon);
  const auto count = static_cast<double>(view.count());
  return VisitFloats(c.inputs[1].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.inputs[0].data<T>().data();
    const T* x = c.inputs[1].data<T>().data();
    for (int64_t channel = 0; channel < view.channels; ++channel) {
      const Moments m = BatchMoments(view, channel, x);
      const double r = 1 / std::sqrt(m.variance + epsilon);
      const auto z = [&](int64_t i) { return (static_cast<double>(x[i]) - m.mean) * r; };
      double sum = 0, sum_z = 0;
      ForEachElement(view, channel, [&](int64_t i) {
        sum += static_cast<double>(dy[i]);
        sum_z += static_cast<double>(dy[i]) * z(i);
      });
      const double factor = c.inputs[2].AsDouble(channel) * r;
      if (Wants(c, 1)) c.outputs[1].Set(channel, sum_z);
      if (Wants(c, 2)) c.outputs[2].Set(channel, sum);
      if (!Wants(c, 0)) continue;
      T* dx = c.outputs[0].mutable_data<T>().data();
      ForEachElement(view, channel, [&](int64_t i) {
        const double g = static_cast<double>(dy[i]) - (sum + z(i) * sum_z) / count;
        dx[i] = Narrow<T>(factor * g);
      });
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> GradRules(const NodeQuery& query) {
  return RulesFor(query, query.inputs[1]->shape, /*any_dim=*/false);
}

std::vector<OperandSpec> PerChannelOperands(std::string_view letter,
                                            std::initializer_list<std::string_view> names) {
  std::vector<OperandSpec> operands;
  for (std::string_view name : names) {
    operands.push_back({.name = std::string(name),
                        .dtypes = FloatTypes(),
                        .same_as = std::string(letter),
                        .doc = "[C]"});
  }
  return operands;
}

}  // namespace

OpDef BatchNormalizationOp() {
  OpDef op = {
      .name = "BatchNormalization",
      .doc = "Each channel normalized by given statistics or by the batch's, scaled and shifted",
      .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,...]"}},
      .outputs = {{.name = "Y", .same_as = "T"},
                  {.name = "running_mean", .optional = true, .same_as = "U", .doc = "[C]"},
                  {.name = "running_var", .optional = true, .same_as = "U", .doc = "[C]"}},
      .attrs = {EpsilonAttr(),
                {.name = "momentum",
                 .kind = AttrKind::kFloat,
                 .default_value = kMomentum,
                 .doc = "how much of the given statistics stays in the running ones"},
                {.name = "training_mode",
                 .kind = AttrKind::kBool,
                 .default_value = false,
                 .doc = "normalize by the statistics of the batch"}},
      .traits = {.in_place = {{0, 0}, {1, 3}, {2, 4}}},
      .fusion = FusionClass::kReduction,
      .infer = Infer,
      .reference = Reference,
      .gradient = Gradient,
      .sharding = Rules,
      .work = NormalizationWork};
  for (OperandSpec& spec : PerChannelOperands("S", {"scale", "B"})) op.inputs.push_back(spec);
  for (OperandSpec& spec : PerChannelOperands("U", {"input_mean", "input_var"})) {
    op.inputs.push_back(spec);
  }
  return op;
}

// Not differentiable itself.
OpDef GradBatchNormalizationOp() {
  return {.name = "grad.BatchNormalization",
          .doc = "The gradient of BatchNormalization by X, scale and B, in training mode",
          .inputs = {{.name = "dY", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,...]"},
                     {.name = "scale", .dtypes = FloatTypes(), .same_as = "S", .doc = "[C]"}},
          .outputs = {{.name = "dX", .same_as = "T"},
                      {.name = "dScale", .optional = true, .same_as = "S"},
                      {.name = "dB", .optional = true, .same_as = "S"}},
          .attrs = {EpsilonAttr()},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kReduction,
          .infer = GradInfer,
          .reference = GradReference,
          .sharding = GradRules,
          .work = NormalizationWork};
}

}  // namespace millrace
