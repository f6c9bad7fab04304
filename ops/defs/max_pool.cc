// MaxPool, GlobalMaxPool, and grad.MaxPool, which sends dY to the positions of the maxima: the
// first one of equals. Padding never wins: a window that holds no element (dilation can step over
// all of them) gives the lowest value of the type, index -1, and passes no gradient.
#include <limits>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/pool.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs(), x.shape));
  const int64_t order = c.attrs().Int("storage_order", 0);
  if (order != 0 && order != 1) {
    return BadInputError(StrCat("'storage_order' is ", order, ", known are 0 and 1"));
  }
  c.set_output(0, {x.dtype, PoolResultShape(x.shape, w)});
  c.set_output(1, {DType::kI64, PoolResultShape(x.shape, w)});
  return absl::OkStatus();
}

template <typename T>
T Lowest() {
  if constexpr (kIsFloating<T>) {
    return T(-std::numeric_limits<float>::infinity());
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

template <typename T>
bool Larger(T a, T b) {
  if constexpr (kIsFloating<T>) {
    const double x = static_cast<double>(a), y = static_cast<double>(b);
    return x > y || (std::isnan(x) && !std::isnan(y));
  } else {
    return a > b;
  }
}

// For each output position of one channel, the input position of its maximum, or -1.
template <typename T>
std::vector<int64_t> MaximaOf(const T* x, const Window& w) {
  std::vector<int64_t> maxima(Volume(w.out), -1);
  ForEachTap(w, [&](int64_t o, int64_t i, int64_t) {
    if (maxima[o] < 0 || Larger(x[i], x[maxima[o]])) maxima[o] = i;
  });
  return maxima;
}

// `i` counted with the first spatial dim varying fastest.
int64_t ColumnMajor(int64_t i, const Window& w) {
  const int64_t i2 = i % w.in[2], i1 = i / w.in[2] % w.in[1], i0 = i / w.in[2] / w.in[1];
  return (i2 * w.in[1] + i1) * w.in[0] + i0;
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs, shape));
  const int64_t in = Volume(w.in), out = Volume(w.out);
  const bool column_major = c.attrs.Int("storage_order", 0) == 1;
  const bool wants_indices = c.outputs.size() > 1 && c.outputs[1].has_data();
  int64_t* indices = wants_indices ? c.outputs[1].mutable_data<int64_t>().data() : nullptr;
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].has_data() ? c.outputs[0].mutable_data<T>().data() : nullptr;
    for (int64_t channel = 0; channel < shape[0] * shape[1]; ++channel) {
      const T* from = x + channel * in;
      const std::vector<int64_t> maxima = MaximaOf(from, w);
      for (int64_t o = 0; o < out; ++o) {
        const int64_t at = channel * out + o, max = maxima[o];
        if (y != nullptr) y[at] = max < 0 ? Lowest<T>() : from[max];
        if (indices == nullptr) continue;
        indices[at] = max < 0 ? -1 : channel * in + (column_major ? ColumnMajor(max, w) : max);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0) || !f.has_output_grad(0)) return absl::OkStatus();
  Attrs attrs = f.attrs();
  attrs.Erase("storage_order");
  f.set_grad(0, Apply("grad.MaxPool", {f.output_grad(0), f.input(0)}, std::move(attrs)));
  return absl::OkStatus();
}

// Indices count over the whole tensor, so with them nothing can be cut.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const bool has_indices = query.outputs.size() > 1 && query.outputs[1].has_value();
  return has_indices ? std::vector<ShardingRule>() : PoolRules(query);
}

Work MaxWork(const NodeQuery& query) {  // comparisons
  return PoolWork(query, (query.outputs[0] ? query.outputs[0] : query.outputs[1])->shape);
}

// --- grad.MaxPool ------------------------------------------------------------------------------

absl::Status GradInfer(InferContext& c) {
  const TensorType &dy = c.input(0), &x = c.input(1);
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs(), x.shape));
  if (dy.shape != PoolResultShape(x.shape, w)) {
    return BadInputError(
        StrCat("dY must be ", ToString(PoolResultShape(x.shape, w)), " for this pool"));
  }
  c.set_output(0, x);
  return absl::OkStatus();
}

absl::Status GradReference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[1].shape();
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs, shape));
  const int64_t in = Volume(w.in), out = Volume(w.out);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.inputs[0].data<T>().data();
    const T* x = c.inputs[1].data<T>().data();
    T* dx = c.outputs[0].mutable_data<T>().data();
    std::vector<double> sums(in);
    for (int64_t channel = 0; channel < shape[0] * shape[1]; ++channel) {
      std::fill(sums.begin(), sums.end(), 0);
      const std::vector<int64_t> maxima = MaximaOf(x + channel * in, w);
      for (int64_t o = 0; o < out; ++o) {
        if (maxima[o] >= 0) sums[maxima[o]] += static_cast<double>(dy[channel * out + o]);
      }
      for (int64_t i = 0; i < in; ++i) dx[channel * in + i] = Narrow<T>(sums[i]);
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> GradRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = PoolRules(query);
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

Work GradWork(const NodeQuery& query) { return PoolWork(query, query.inputs[0]->shape); }

// --- GlobalMaxPool: the window is all of a channel, whose spatial dims are seen as one -----------

// [N,C,spatial...] as [N,C,positions].
Shape Flattened(const Shape& x) { return {x[0], x[1], ElementsFrom(x, 2)}; }

Attrs GlobalWindow(const Shape& flattened) {
  Attrs attrs;
  attrs.Set("kernel_shape", std::vector<int64_t>{flattened[2]});
  return attrs;
}

absl::Status GlobalInfer(InferContext& c) {
  const TensorType& x = c.input(0);
  if (x.shape.rank() < 3) {
    return BadInputError(StrCat("X must be [N,C,spatial...], but has rank ", x.shape.rank()));
  }
  const Shape flat = Flattened(x.shape);
  if (flat[2] == 0) return BadInputError("a channel without elements has no maximum");
  MILLRACE_RETURN_IF_ERROR(PoolWindow(GlobalWindow(flat), flat).status());
  Shape shape{x.shape[0], x.shape[1]};
  while (shape.rank() < x.shape.rank()) shape.push_back(1);
  c.set_output(0, {x.dtype, shape});
  return absl::OkStatus();
}

absl::Status GlobalReference(const ReferenceContext& c) {
  const Tensor x = c.inputs[0].Reshaped(Flattened(c.inputs[0].shape()));
  return Reference({GlobalWindow(x.shape()), {&x, 1}, c.outputs});
}

Work GlobalWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

absl::Status GlobalGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape &x = f.input_type(0).shape, flat = Flattened(x);
  const Term dy = Reshape(f.output_grad(0), {x[0], x[1], 1});
  const Term dx = Apply("grad.MaxPool", {dy, Reshape(f.input(0), flat)}, GlobalWindow(flat));
  f.set_grad(0, Reshape(dx, x));
  return absl::OkStatus();
}

}  // namespace

OpDef MaxPoolOp() {
  OpDef op = {.name = "MaxPool",
              .doc = "The largest element in each place of a window over 1 to 3 spatial dims",
              .inputs = {{.name = "X",
                          .dtypes = NumericTypes(),
                          .same_as = "T",
                          .doc = "[N,C,spatial...]"}},
              .outputs = {{.name = "Y", .same_as = "T"},
                          {.name = "Indices",
                           .dtypes = {DType::kI64},
                           .optional = true,
                           .doc = "positions of the maxima, counted over all of X"}},
              .attrs = PoolAttrs(),
              .infer = Infer,
              .reference = Reference,
              .gradient = Gradient,
              .sharding = Rules,
              .work = MaxWork};
  op.attrs.push_back({.name = "storage_order",
                      .kind = AttrKind::kInt,
                      .default_value = int64_t{0},
                      .doc = "1: Indices count spatial dims with the first varying fastest"});
  return op;
}

OpDef GlobalMaxPoolOp() {
  return {
      .name = "GlobalMaxPool",
      .doc = "The largest element of each channel",
      .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"}},
      .outputs = {{.name = "Y", .same_as = "T", .doc = "[N,C,1...]"}},
      .fusion = FusionClass::kReduction,
      .infer = GlobalInfer,
      .reference = GlobalReference,
      .gradient = GlobalGradient,
      .sharding = PoolRules,
      .work = GlobalWork};
}

// Not differentiable itself: the maxima's positions would have to be gathered from its gradient.
OpDef GradMaxPoolOp() {
  return {.name = "grad.MaxPool",
          .doc = "The gradient of MaxPool: dY at the positions of the maxima, zeros elsewhere",
          .inputs = {{.name = "dY", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "dX", .same_as = "T"}},
          .attrs = PoolAttrs(),
          .infer = GradInfer,
          .reference = GradReference,
          .sharding = GradRules,
          .work = GradWork};
}

}  // namespace millrace
