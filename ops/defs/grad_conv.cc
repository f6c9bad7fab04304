// The gradients of Conv. Conv is linear in X and in W; these are its transposes, written over the
// same taps, and each is differentiated by the other two.
#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// --- grad.ConvInput: dX from dY and W ----------------------------------------------------------

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
  MILLRACE_RETURN_IF_ERROR(CheckConvRank(dy, "dY"));
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
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<double> sums(c.outputs[0].num_elements());
    AddInputGrad(conv, c.inputs[0].data<T>().data(), c.inputs[1].data<T>().data(), sums);
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

// --- grad.ConvWeight: dW from X and dY ---------------------------------------------------------

absl::StatusOr<Shape> WeightShape(const Attrs& attrs, const Shape& x, const Shape& dy) {
  MILLRACE_RETURN_IF_ERROR(CheckConvRank(x, "X"));
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
