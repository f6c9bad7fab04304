// AveragePool, and grad.AveragePool, its transpose: each place of the window spreads dY over its
// taps. Taps in the padding count as zeros with count_include_pad, else not at all; a window
// without any element (dilation can step over all of them) gives 0.
#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/pool.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// 1 / taps for each place of the window, 0 where there are none.
std::vector<double> Shares(const Attrs& attrs, const Window& w) {
  const auto counts = TapCounts(w, attrs.Bool("count_include_pad", false));
  std::vector<double> shares;
  for (int64_t n0 : counts[0]) {
    for (int64_t n1 : counts[1]) {
      for (int64_t n2 : counts[2]) {
        const int64_t taps = n0 * n1 * n2;
        shares.push_back(taps == 0 ? 0 : 1 / static_cast<double>(taps));
      }
    }
  }
  return shares;
}

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs(), x.shape));
  c.set_output(0, {x.dtype, PoolResultShape(x.shape, w)});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();  // dims may be huge
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs, shape));
  const std::vector<double> shares = Shares(c.attrs, w);
  const int64_t in = Volume(w.in), out = Volume(w.out);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    std::vector<double> sums(out);
    for (int64_t channel = 0; channel < shape[0] * shape[1]; ++channel, x += in, y += out) {
      std::fill(sums.begin(), sums.end(), 0);
      ForEachTap(w, [&](int64_t o, int64_t i, int64_t) { sums[o] += static_cast<double>(x[i]); });
      for (int64_t o = 0; o < out; ++o) y[o] = Narrow<T>(sums[o] * shares[o]);
    }
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape& x = f.input_type(0).shape;
  Attrs attrs = f.attrs();
  attrs.Set("input_shape", std::vector<int64_t>(x.begin() + 2, x.end()));
  f.set_grad(0, Apply("grad.AveragePool", {f.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}

// Linear, besides what holds of all pools.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = PoolRules(query);
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

Work AverageWork(const NodeQuery& query) { return PoolWork(query, query.outputs[0]->shape); }

// --- grad.AveragePool --------------------------------------------------------------------------

absl::Status GradInfer(InferContext& c) {
  const TensorType& dy = c.input(0);
  Shape x(dy.shape.dims().first(std::min(dy.shape.rank(), 2)));
  for (int64_t d : c.attrs().Ints("input_shape")) {
    if (d < 0 || d > kMaxBytes) return BadInputError(StrCat("'input_shape' has an entry of ", d));
    if (x.rank() == kMaxRank) break;
    x.push_back(d);
  }
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs(), x));
  if (dy.shape != PoolResultShape(x, w)) {
    return BadInputError(StrCat("dY must be ", ToString(PoolResultShape(x, w)), " for this pool"));
  }
  c.set_output(0, {dy.dtype, x});
  return absl::OkStatus();
}

absl::Status GradReference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();  // dims may be huge
  const Shape& shape = c.outputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs, shape));
  const std::vector<double> shares = Shares(c.attrs, w);
  const int64_t in = Volume(w.in), out = Volume(w.out);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.inputs[0].data<T>().data();
    T* dx = c.outputs[0].mutable_data<T>().data();
    std::vector<double> sums(in);
    for (int64_t channel = 0; channel < shape[0] * shape[1]; ++channel, dy += out, dx += in) {
      std::fill(sums.begin(), sums.end(), 0);
      ForEachTap(w, [&](int64_t o, int64_t i, int64_t) {
        sums[i] += static_cast<double>(dy[o]) * shares[o];
      });
      for (int64_t i = 0; i < in; ++i) dx[i] = Narrow<T>(sums[i]);
    }
    return absl::OkStatus();
  });
}

absl::Status GradGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  Attrs attrs = f.attrs();
  attrs.Erase("input_shape");
  f.set_grad(0, Apply("AveragePool", {f.output_grad(0)}, std::move(attrs)));
  return absl::OkStatus();
}

Work GradWork(const NodeQuery& query) { return PoolWork(query, query.inputs[0]->shape); }

std::vector<AttrSpec> AverageAttrs() {
  std::vector<AttrSpec> attrs = PoolAttrs();
  attrs.push_back({.name = "count_include_pad",
                   .kind = AttrKind::kBool,
                   .default_value = false,
                   .doc = "padding counts, as zeros"});
  return attrs;
}

}  // namespace

OpDef AveragePoolOp() {
  return {
      .name = "AveragePool",
      .doc = "The mean of the elements in each place of a window over 1 to 3 spatial dims",
      .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"}},
      .outputs = {{.name = "Y", .same_as = "T"}},
      .attrs = AverageAttrs(),
      .infer = Infer,
      .reference = Reference,
      .gradient = Gradient,
      .sharding = Rules,
      .work = AverageWork};
}

OpDef GradAveragePoolOp() {
  OpDef op = {.name = "grad.AveragePool",
              .doc = "The gradient of AveragePool: dY spread over the taps of each window",
              .inputs = {{.name = "dY", .dtypes = FloatTypes(), .same_as = "T"}},
              .outputs = {{.name = "dX", .same_as = "T"}},
              .attrs = AverageAttrs(),
              .infer = GradInfer,
              .reference = GradReference,
              .gradient = GradGradient,
              .sharding = Rules,
              .work = GradWork};
  op.attrs.push_back(InputShapeAttr());
  return op;
}

}  // namespace millrace
