// ConvTranspose: the transpose of a convolution with the same weights. Each element of X adds W,
// scaled by it, to the window of Y at its place; then B. With output_padding or output_shape, Y may
// have positions at its end that no window reaches.
#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv,
                            TransposedConvolutionOf(c.attrs(), c.input(0).shape, c.input(1).shape));
  const Shape y = OperandShape(conv);
  if (c.has_input(2) && c.input(2).shape != Shape{y[1]}) {
    return BadInputError(StrCat("B must be [", y[1], "], but is ", ToString(c.input(2).shape)));
  }
  c.set_output(0, {c.input(0).dtype, y});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(
      const Convolution conv,
      TransposedConvolutionOf(c.attrs, c.inputs[0].shape(), c.inputs[1].shape()));
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool has_bias = c.inputs.size() > 2 && c.inputs[2].has_data();
    std::vector<double> sums = SumsFromBias<T>(c.outputs[0], has_bias ? &c.inputs[2] : nullptr);
    AddInputGrad(conv, c.inputs[0].data<T>().data(), c.inputs[1].data<T>().data(), sums);
    StoreSums<T>(sums, c.outputs[0]);
    return absl::OkStatus();
  });
}

// dY without the positions at its end that no window reaches, where there are so many that a
// convolution would put one more window there. Nothing where no position is reached at all.
std::optional<Term> Reached(Convolution& conv, Term dy) {
  Window& w = conv.window;
  for (int d = kMaxSpatial - w.rank; d < kMaxSpatial; ++d) {
    const int64_t reached = Reach(w, d);
    if (reached < 1 || w.in[d] == 0) return std::nullopt;
    if (w.in[d] - reached < w.strides[d]) continue;
    const int64_t sizes[] = {reached, w.in[d] - reached};
    Attrs attrs;
    attrs.Set("axis", int64_t{d + w.rank - kMaxSpatial + 2});
    const Node& split =
        dy.builder->AddNode("Split", {dy.id, Ints(*dy.builder, sizes).id}, attrs, "reached", 2);
    dy.id = split.outputs[0];
    w.in[d] = reached;
  }
  return dy;
}

// By X: the convolution itself; by W: that of X with dY.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Shape &x = f.input_type(0).shape, &w = f.input_type(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(Convolution conv, TransposedConvolutionOf(f.attrs(), x, w));
  if (f.wants(2)) {
    std::vector<int64_t> axes = {0};
    for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
    f.set_grad(2, Sum(f.output_grad(0), axes, /*keep=*/false));
  }
  if (!f.wants(0) && !f.wants(1)) return absl::OkStatus();
  const std::optional<Term> dy = Reached(conv, f.output_grad(0));
  if (!dy.has_value()) return absl::OkStatus();
  if (f.wants(0)) f.set_grad(0, Apply("Conv", {*dy, f.input(1)}, GeometryAttrs(conv)));
  if (f.wants(1)) f.set_grad(1, ConvWeightGrad(conv, *dy, f.input(0)));
  return absl::OkStatus();
}

// Those of the convolution, with X and Y in each other's place.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ConvCut> cuts =
      ConvCuts(query.outputs[0]->shape, query.inputs[1]->shape, query.attrs);
  for (ConvCut& cut : cuts) {
    std::swap(cut.x, cut.y);
    if (!IsShard(cut.w)) continue;
    cut.note = cut.w.dim == 0 ? "split input channels" : "split output channels";
  }
  return ConvRules(query, cuts);
}

Work TransposeWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 2 * MultiplyAdds(query.inputs[0]->shape, query.inputs[1]->shape);
  if (query.inputs.size() > 2 && query.inputs[2].has_value()) {
    work.flops += static_cast<double>(NumElements(query.outputs[0]->shape));
  }
  return work;
}

}  // namespace

OpDef ConvTransposeOp() {
  OpDef op = {
      .name = "ConvTranspose",
      .doc = "The transpose of a convolution over 1 to 3 spatial dims",
      .inputs =
          {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"},
           {.name = "W", .dtypes = FloatTypes(), .same_as = "T", .doc = "[C,M/group,kernel...]"},
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
      .work = TransposeWork};
  op.attrs.push_back({.name = "output_padding",
                      .kind = AttrKind::kInts,
                      .doc = "positions added at the end of each spatial dim; absent: 0"});
  op.attrs.push_back({.name = "output_shape",
                      .kind = AttrKind::kInts,
                      .doc = "the spatial dims of Y; pads are then made to fit, and not read"});
  return op;
}

}  // namespace millrace
