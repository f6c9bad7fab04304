// Conv: Y[n,m,o] = B[m] + sum over c, k of X[n, group's c, o * stride - pad + k * dilation]
// W[m,c,k] in one to three spatial dims. It is linear in X and in W; grad.ConvInput and
// grad.ConvWeight are the transposes, written over the same taps, and each is differentiated by the
// other two.
#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"
#include "ops/window.h"

namespace millrace {
namespace {

struct Convolution {
  Window window;
  int64_t batch = 0, group = 1;
  int64_t in_channels = 0, out_channels = 0;  // per group
};

std::span<const int64_t> SpatialOf(const Shape& shape) { return shape.dims().subspan(2); }

absl::Status CheckRank(const Shape& shape, std::string_view name) {
  if (shape.rank() >= 3 && shape.rank() <= 2 + kMaxSpatial) return absl::OkStatus();
  return BadInputError(StrCat("'", name,
                              "' must have 1 to 3 spatial dims, that is rank 3 to 5, but ",
                              "has rank ", shape.rank()));
}

// From X, of [N, group * C, in...], and W, of [group * M, C, kernel...].
absl::StatusOr<Convolution> ConvolutionOf(const Attrs& attrs, const Shape& x, const Shape& w) {
  MILLRACE_RETURN_IF_ERROR(CheckRank(x, "X"));
  if (w.rank() != x.rank()) {
    return BadInputError(StrCat("X has rank ", x.rank(), ", W has rank ", w.rank()));
  }
  Convolution conv;
  conv.batch = x[0];
  conv.group = attrs.Int("group", 1);
  if (conv.group < 1) return BadInputError(StrCat("'group' is ", conv.group));
  if (w[0] % conv.group != 0) {
    return BadInputError(StrCat(w[0], " output channels do not divide in ", conv.group, " groups"));
  }
  if (x[1] % conv.group != 0 || x[1] / conv.group != w[1]) {
    return BadInputError(StrCat("X has ", x[1], " channels, W takes ", w[1], " in each of ",
                                conv.group, conv.group == 1 ? " group" : " groups"));
  }
  conv.in_channels = w[1];
  conv.out_channels = w[0] / conv.group;
  if (attrs.Find("kernel_shape") != nullptr) {
    const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
    if (!std::equal(kernel.begin(), kernel.end(), SpatialOf(w).begin(), SpatialOf(w).end())) {
      return BadInputError(
          StrCat("'kernel_shape' differs from the spatial dims of W, ", ToString(w)));
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(conv.window, MakeWindow(attrs, SpatialOf(x), SpatialOf(w)));
  return conv;
}

Shape ResultShape(const Convolution& conv) {
  Shape shape{conv.batch, conv.group * conv.out_channels};
  for (int64_t d : Dims(conv.window, conv.window.out)) shape.push_back(d);
  return shape;
}

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &w = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs(), x, w));
  if (c.has_input(2) && c.input(2).shape != Shape{w[0]}) {
    return BadInputError(StrCat("B must be [", w[0], "], but is ", ToString(c.input(2).shape)));
  }
  c.set_output(0, {c.input(0).dtype, ResultShape(conv)});
  return absl::OkStatus();
}

// f(n, x channel, w row, y channel), with channels counted over all of X, W's [M,C] and Y: each
// combination that Conv joins by its taps.
template <typename F>
void ForEachChannelPair(const Convolution& conv, F&& f) {
  for (int64_t n = 0; n < conv.batch; ++n) {
    for (int64_t m = 0; m < conv.group * conv.out_channels; ++m) {
      const int64_t group = m / conv.out_channels;
      for (int64_t c = 0; c < conv.in_channels; ++c) {
        f((n * conv.group + group) * conv.in_channels + c, m * conv.in_channels + c,
          n * conv.group * conv.out_channels + m);
      }
    }
  }
}

template <typename T>
void StoreSums(const std::vector<double>& sums, Tensor& out) {
  const std::span<T> to = out.mutable_data<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(sums[i]);
}

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv,
                            ConvolutionOf(c.attrs, c.inputs[0].shape(), c.inputs[1].shape()));
  const Window& window = conv.window;
  const int64_t in = Volume(window.in), out = Volume(window.out), kernel = Volume(window.kernel);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    const T* w = c.inputs[1].data<T>().data();
    std::vector<double> sums(c.outputs[0].num_elements());
    if (c.inputs.size() > 2 && c.inputs[2].has_data()) {
      const std::span<const T> bias = c.inputs[2].data<T>();
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i] = static_cast<double>(bias[i / out % bias.size()]);
      }
    }
    ForEachChannelPair(conv, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
      ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
        sums[y_at * out + o] +=
            static_cast<double>(x[x_at * in + i]) * static_cast<double>(w[w_at * kernel + k]);
      });
    });
    StoreSums<T>(sums, c.outputs[0]);
    return absl::OkStatus();
  });
}

// Taps in the padding count too.
double MultiplyAdds(const Shape& y, const Shape& w) {
  return static_cast<double>(NumElements(y)) *
         static_cast<double>(NumElements(Shape(w.dims().subspan(1))));
}

Work ConvWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& y = query.outputs[0]->shape;
  work.flops = 2 * MultiplyAdds(y, query.inputs[1]->shape);
  if (query.inputs.size() > 2 && query.inputs[2].has_value()) {
    work.flops += static_cast<double>(NumElements(y));
  }
  return work;
}

// --- Sharding
// -------------------------------------------------------------------------------------

// One way to cut the three tensors a convolution joins, whichever of them is the result.
struct ConvCut {
  std::string_view note;
  AxisSharding x, w, y;
};

// With groups, the number of groups would have to be cut as well, so channels then stay whole. For
// a result along a cut that joins two other cut tensors, `Partial` stands for the sum.
std::vector<ConvCut> ConvCuts(const Shape& x, const Shape& w, const Attrs& attrs) {
  std::vector<ConvCut> cuts;
  if (Divisible(x, 0)) cuts.push_back({"split the batch", ShardDim(0), Replicate(), ShardDim(0)});
  if (attrs.Int("group", 1) != 1) return cuts;
  if (Divisible(w, 0)) {
    cuts.push_back({"split output channels", Replicate(), ShardDim(0), ShardDim(1)});
  }
  if (Divisible(w, 1)) {
    cuts.push_back({"split input channels", ShardDim(1), ShardDim(1), Replicate()});
  }
  return cuts;
}

bool IsShard(const AxisSharding& s) { return s.kind == AxisSharding::Kind::kShard; }

// The result's sharding in a cut: as named, or a sum where it is whole but its operands are cut.
AxisSharding ResultOf(const AxisSharding& named) {
  return IsShard(named) ? named : Partial(Reduction::kSum);
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const bool has_bias = query.inputs.size() > 2 && query.inputs[2].has_value();
  const AxisSharding sum = Partial(Reduction::kSum), mean = Partial(Reduction::kMean);
  const auto add = [&](std::string_view note, AxisSharding x, AxisSharding w, AxisSharding b,
                       AxisSharding y) {
    ShardingRule rule = ReplicateAll(query, note);
    rule.inputs[0] = x;
    rule.inputs[1] = w;
    if (has_bias) rule.inputs[2] = b;
    rule.outputs[0] = y;
    rules.push_back(std::move(rule));
  };
  for (const ConvCut& cut : ConvCuts(query.inputs[0]->shape, query.inputs[1]->shape, query.attrs)) {
    // B goes with output channels; it counts once in a sum of the devices' results.
    const AxisSharding b = !IsShard(cut.y) ? sum : cut.y.dim == 1 ? ShardDim(0) : Replicate();
    add(cut.note, cut.x, cut.w, b, ResultOf(cut.y));
  }
  add("pass partial sum of X through", sum, Replicate(), sum, sum);
  add("pass partial sum of W through", Replicate(), sum, sum, sum);
  add("pass partial mean of X through", mean, Replicate(), Replicate(), mean);
  add("pass partial mean of W through", Replicate(), mean, Replicate(), mean);
  return rules;
}

// --- Gradient
// -------------------------------------------------------------------------------------

// The geometry of a node, with automatic padding resolved, as attributes of another one.
Attrs GeometryAttrs(const Convolution& conv) {
  const Window& w = conv.window;
  std::vector<int64_t> pads = Dims(w, w.pads_begin);
  for (int64_t p : Dims(w, w.pads_end)) pads.push_back(p);
  Attrs attrs;
  attrs.Set("strides", Dims(w, w.strides));
  attrs.Set("dilations", Dims(w, w.dilations));
  attrs.Set("pads", std::move(pads));
  attrs.Set("group", conv.group);
  return attrs;
}

Term ConvInputGrad(const Convolution& conv, const Term& dy, const Term& w) {
  Attrs attrs = GeometryAttrs(conv);
  attrs.Set("input_shape", Dims(conv.window, conv.window.in));
  return Apply("grad.ConvInput", {dy, w}, std::move(attrs));
}

Term ConvWeightGrad(const Convolution& conv, const Term& x, const Term& dy) {
  Attrs attrs = GeometryAttrs(conv);
  attrs.Set("kernel_shape", Dims(conv.window, conv.window.kernel));
  return Apply("grad.ConvWeight", {x, dy}, std::move(attrs));
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Shape &x = f.input_type(0).shape, &w = f.input_type(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(f.attrs(), x, w));
  const Term dy = f.output_grad(0);
  if (f.wants(0)) f.set_grad(0, ConvInputGrad(conv, dy, f.input(1)));
  if (f.wants(1)) f.set_grad(1, ConvWeightGrad(conv, f.input(0), dy));
  if (f.wants(2)) {
    std::vector<int64_t> axes = {0};
    for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
    f.set_grad(2, Sum(dy, axes, /*keep=*/false));
  }
  return absl::OkStatus();
}

// --- grad.ConvInput: dX from dY and W
// -------------------------------------------------------------

// `x` with other spatial dims.
Shape WithSpatial(int64_t first, int64_t second, const std::vector<int64_t>& spatial) {
  Shape shape{first, second};
  for (int64_t d : spatial) shape.push_back(d);
  return shape;
}

absl::StatusOr<std::vector<int64_t>> SpatialAttr(const Attrs& attrs, std::string_view name,
                                                 int rank) {
  std::vector<int64_t> dims = attrs.Ints(name);
  bool ok = static_cast<int>(dims.size()) == rank - 2;
  for (int64_t d : dims) ok &= d >= 0 && d <= kMaxBytes;
  if (!ok) return BadInputError(StrCat("'", name, "' must be the ", rank - 2, " spatial dims"));
  return dims;
}

absl::Status CheckResult(const Convolution& conv, const Shape& dy) {
  if (ResultShape(conv) == dy) return absl::OkStatus();
  return BadInputError(StrCat("dY must be ", ToString(ResultShape(conv)), " for this convolution"));
}

absl::StatusOr<Shape> InputShape(const Attrs& attrs, const Shape& dy, const Shape& w) {
  MILLRACE_RETURN_IF_ERROR(CheckRank(dy, "dY"));
  if (w.rank() != dy.rank()) return BadInputError("dY and W differ in rank");
  MILLRACE_ASSIGN_OR_RETURN(const auto spatial, SpatialAttr(attrs, "input_shape", dy.rank()));
  const int64_t group = attrs.Int("group", 1);
  if (group < 1 || group > kMaxBytes / std::max<int64_t>(1, w[1])) {
    return BadInputError(StrCat("'group' is ", group));
  }
  return WithSpatial(dy[0], group * w[1], spatial);
}

absl::Status InferInputGrad(InferContext& c) {
  const Shape &dy = c.input(0).shape, &w = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Shape x, InputShape(c.attrs(), dy, w));
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs(), x, w));
  MILLRACE_RETURN_IF_ERROR(CheckResult(conv, dy));
  c.set_output(0, {c.input(0).dtype, x});
  return absl::OkStatus();
}

absl::Status InputGradReference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv,
                            ConvolutionOf(c.attrs, c.outputs[0].shape(), c.inputs[1].shape()));
  const Window& window = conv.window;
  const int64_t in = Volume(window.in), out = Volume(window.out), kernel = Volume(window.kernel);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.inputs[0].data<T>().data();
    const T* w = c.inputs[1].data<T>().data();
    std::vector<double> sums(c.outputs[0].num_elements());
    ForEachChannelPair(conv, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
      ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
        sums[x_at * in + i] +=
            static_cast<double>(dy[y_at * out + o]) * static_cast<double>(w[w_at * kernel + k]);
      });
    });
    StoreSums<T>(sums, c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status InputGradGradient(GradientContext& c) {
  Forward f(c);
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(f.attrs(), f.output_type(0).shape,
                                                                  f.input_type(1).shape));
  const Term ddx = f.output_grad(0);
  if (f.wants(0)) f.set_grad(0, Apply("Conv", {ddx, f.input(1)}, GeometryAttrs(conv)));
  if (f.wants(1)) f.set_grad(1, ConvWeightGrad(conv, ddx, f.input(0)));
  return absl::OkStatus();
}

std::vector<ShardingRule> InputGradRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  for (const ConvCut& cut :
       ConvCuts(query.outputs[0]->shape, query.inputs[1]->shape, query.attrs)) {
    rules.push_back({{cut.y, cut.w}, {ResultOf(cut.x)}, std::string(cut.note)});
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  AddPartialRules(query, 1, kLinearReductions, rules);
  return rules;
}

Work InputGradWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 2 * MultiplyAdds(query.inputs[0]->shape, query.inputs[1]->shape);
  return work;
}

// --- grad.ConvWeight: dW from X and dY
// ------------------------------------------------------------

absl::StatusOr<Shape> WeightShape(const Attrs& attrs, const Shape& x, const Shape& dy) {
  MILLRACE_RETURN_IF_ERROR(CheckRank(x, "X"));
  if (dy.rank() != x.rank()) return BadInputError("X and dY differ in rank");
  MILLRACE_ASSIGN_OR_RETURN(const auto spatial, SpatialAttr(attrs, "kernel_shape", x.rank()));
  const int64_t group = attrs.Int("group", 1);
  if (group < 1) return BadInputError(StrCat("'group' is ", group));
  return WithSpatial(dy[1], x[1] / group, spatial);
}

absl::Status InferWeightGrad(InferContext& c) {
  const Shape &x = c.input(0).shape, &dy = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Shape w, WeightShape(c.attrs(), x, dy));
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs(), x, w));
  MILLRACE_RETURN_IF_ERROR(CheckResult(conv, dy));
  c.set_output(0, {c.input(0).dtype, w});
  return absl::OkStatus();
}

absl::Status WeightGradReference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv,
                            ConvolutionOf(c.attrs, c.inputs[0].shape(), c.outputs[0].shape()));
  const Window& window = conv.window;
  const int64_t in = Volume(window.in), out = Volume(window.out), kernel = Volume(window.kernel);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    const T* dy = c.inputs[1].data<T>().data();
    std::vector<double> sums(c.outputs[0].num_elements());
    ForEachChannelPair(conv, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
      ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
        sums[w_at * kernel + k] +=
            static_cast<double>(x[x_at * in + i]) * static_cast<double>(dy[y_at * out + o]);
      });
    });
    StoreSums<T>(sums, c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status WeightGradGradient(GradientContext& c) {
  Forward f(c);
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(f.attrs(), f.input_type(0).shape,
                                                                  f.output_type(0).shape));
  const Term ddw = f.output_grad(0);
  if (f.wants(0)) f.set_grad(0, ConvInputGrad(conv, f.input(1), ddw));
  if (f.wants(1)) f.set_grad(1, Apply("Conv", {f.input(0), ddw}, GeometryAttrs(conv)));
  return absl::OkStatus();
}

std::vector<ShardingRule> WeightGradRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  for (const ConvCut& cut :
       ConvCuts(query.inputs[0]->shape, query.outputs[0]->shape, query.attrs)) {
    rules.push_back({{cut.x, cut.y}, {ResultOf(cut.w)}, std::string(cut.note)});
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  AddPartialRules(query, 1, kLinearReductions, rules);
  return rules;
}

Work WeightGradWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 2 * MultiplyAdds(query.inputs[1]->shape, query.outputs[0]->shape);
  return work;
}

std::vector<AttrSpec> ConvAttrs(AttrSpec shape) {
  std::vector<AttrSpec> attrs = WindowAttrs();
  attrs.push_back({.name = "group",
                   .kind = AttrKind::kInt,
                   .default_value = int64_t{1},
                   .doc = "channels are cut in so many independent groups"});
  attrs.push_back(std::move(shape));
  return attrs;
}

OpDef ConvGrad(std::string name, std::string doc, std::vector<std::string> operands) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = operands[0], .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = operands[1], .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = operands[2], .same_as = "T"}},
          .fusion = FusionClass::kContraction,
          .infer = nullptr};
}

}  // namespace

OpDef ConvOp() {
  return {
      .name = "Conv",
      .doc = "Convolution over 1 to 3 spatial dims",
      .inputs =
          {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"},
           {.name = "W", .dtypes = FloatTypes(), .same_as = "T", .doc = "[M,C/group,kernel...]"},
           {.name = "B", .dtypes = FloatTypes(), .optional = true, .same_as = "T", .doc = "[M]"}},
      .outputs = {{.name = "Y", .same_as = "T", .doc = "[N,M,spatial...]"}},
      .attrs = ConvAttrs({.name = "kernel_shape",
                          .kind = AttrKind::kInts,
                          .doc = "if given, the spatial dims of W"}),
      .fusion = FusionClass::kContraction,
      .infer = Infer,
      .reference = Reference,
      .gradient = Gradient,
      .sharding = Rules,
      .work = ConvWork};
}

OpDef GradConvInputOp() {
  OpDef op = ConvGrad("grad.ConvInput", "The gradient of Conv by X", {"dY", "W", "dX"});
  op.attrs = ConvAttrs({.name = "input_shape",
                        .kind = AttrKind::kInts,
                        .required = true,
                        .doc = "the spatial dims of X"});
  op.infer = InferInputGrad;
  op.reference = InputGradReference;
  op.gradient = InputGradGradient;
  op.sharding = InputGradRules;
  op.work = InputGradWork;
  return op;
}

OpDef GradConvWeightOp() {
  OpDef op = ConvGrad("grad.ConvWeight", "The gradient of Conv by W", {"X", "dY", "dW"});
  op.attrs = ConvAttrs({.name = "kernel_shape",
                        .kind = AttrKind::kInts,
                        .required = true,
                        .doc = "the spatial dims of W"});
  op.infer = InferWeightGrad;
  op.reference = WeightGradReference;
  op.gradient = WeightGradGradient;
  op.sharding = WeightGradRules;
  op.work = WeightGradWork;
  return op;
}

}  // namespace millrace
