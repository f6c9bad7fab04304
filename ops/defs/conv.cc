// Conv: Y[n,m,o] = B[m] + sum over c, k of X[n, group's c, o * stride - pad + k * dilation]
// W[m,c,k] in one to three spatial dims.
#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &w = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs(), x, w));
  if (c.has_input(2) && c.input(2).shape != Shape{w[0]}) {
    return BadInputError(StrCat("B must be [", w[0], "], but is ", ToString(c.input(2).shape)));
  }
  c.set_output(0, {c.input(0).dtype, ResultShape(conv)});
  return absl::OkStatus();
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
    const bool has_bias = c.inputs.size() > 2 && c.inputs[2].has_data();
    std::vector<double> sums = SumsFromBias<T>(c.outputs[0], has_bias ? &c.inputs[2] : nullptr);
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

Work ConvWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& y = query.outputs[0]->shape;
  work.flops = 2 * MultiplyAdds(y, query.inputs[1]->shape);
  if (query.inputs.size() > 2 && query.inputs[2].has_value()) {
    work.flops += static_cast<double>(NumElements(y));
  }
  return work;
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  return ConvRules(query, ConvCuts(query.inputs[0]->shape, query.inputs[1]->shape, query.attrs));
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

}  // namespace millrace
