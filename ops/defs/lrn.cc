// LRN, local response normalization: Y = X / base^beta, where base = bias + alpha / size * the sum
// of squares of the `size` channels around each one, as many before as after it (or one more
// after).
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct Lrn {
  int64_t batch = 0, channels = 0, positions = 1;
  int64_t before = 0, after = 0;         // channels in the window besides the one in its middle
  double alpha = 0, beta = 0, bias = 0;  // alpha: by size already
};

absl::StatusOr<Lrn> LrnOf(const Attrs& attrs, const Shape& x) {
  const int64_t size = attrs.Int("size", 0);
  if (size < 1) return BadInputError(StrCat("'size' is ", size, ", expected is 1 or more"));
  if (x.rank() < 2) return BadInputError(StrCat("X must be [N,C,...], but has rank ", x.rank()));
  Lrn l;
  l.batch = x[0];
  l.channels = x[1];
  l.positions = ElementsFrom(x, 2);
  l.before = (size - 1) / 2;
  l.after = size - 1 - l.before;
  l.alpha = attrs.Float("alpha", 1e-4) / static_cast<double>(size);
  l.beta = attrs.Float("beta", 0.75);
  l.bias = attrs.Float("bias", 1);
  return l;
}

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(LrnOf(c.attrs(), c.input(0).shape).status());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

// The sum of values[c - before ... c + after] for each channel c, where there are such channels.
std::vector<double> WindowSums(const std::vector<double>& values, int64_t before, int64_t after) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<double> sums(values.size());
  for (int64_t c = 0; c < n; ++c) {
    const int64_t last = after < n - c ? c + after : n - 1;
    for (int64_t i = before < c ? c - before : 0; i <= last; ++i) sums[c] += values[i];
  }
  return sums;
}

// f(elements along the channels at one position of one image, as indices).
template <typename F>
void ForEachColumn(const Lrn& l, F&& f) {
  std::vector<int64_t> at(l.channels);
  for (int64_t n = 0; n < l.batch && l.channels > 0; ++n) {
    for (int64_t p = 0; p < l.positions; ++p) {
      for (int64_t c = 0; c < l.channels; ++c) at[c] = (n * l.channels + c) * l.positions + p;
      f(at);
    }
  }
}

template <typename T>
std::vector<double> BasesOf(const Lrn& l, const T* x, const std::vector<int64_t>& at) {
  std::vector<double> squares;
  for (int64_t i : at) squares.push_back(static_cast<double>(x[i]) * static_cast<double>(x[i]));
  std::vector<double> bases = WindowSums(squares, l.before, l.after);
  for (double& base : bases) base = l.bias + l.alpha * base;
  return bases;
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Lrn l, LrnOf(c.attrs, c.inputs[0].shape()));
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    ForEachColumn(l, [&](const std::vector<int64_t>& at) {
      const std::vector<double> bases = BasesOf(l, x, at);
      for (size_t k = 0; k < at.size(); ++k) {
        y[at[k]] = Narrow<T>(static_cast<double>(x[at[k]]) * std::pow(bases[k], -l.beta));
      }
    });
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) f.set_grad(0, Apply("grad.LRN", {f.output_grad(0), f.input(0)}, f.attrs()));
  return absl::OkStatus();
}

// Every dim but the channels.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const int channels[] = {1};
  return ElementwiseRulesExcept(query, channels);
}

Work LrnWork(const NodeQuery& query) {  // the window's sum, a power, a product
  Work work = DefaultWork(query);
  work.flops *= static_cast<double>(query.attrs.Int("size", 1)) + 3;
  return work;
}

// --- grad.LRN ----------------------------------------------------------------------------------

absl::Status GradInfer(InferContext& c) {
  const TensorType& x = c.input(1);
  MILLRACE_RETURN_IF_ERROR(LrnOf(c.attrs(), x.shape).status());
  if (c.input(0).shape != x.shape) {
    return BadInputError(StrCat("dY must have the shape of X, ", ToString(x.shape), ", but has ",
                                ToString(c.input(0).shape)));
  }
  c.set_output(0, x);
  return absl::OkStatus();
}

// dx[c] = dy[c] base[c]^-beta - 2 alpha beta x[c] * sum of (dy x base^(-beta-1)) over the channels
// whose window holds c: the window turned around.
absl::Status GradReference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Lrn l, LrnOf(c.attrs, c.inputs[1].shape()));
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.inputs[0].data<T>().data();
    const T* x = c.inputs[1].data<T>().data();
    T* dx = c.outputs[0].mutable_data<T>().data();
    ForEachColumn(l, [&](const std::vector<int64_t>& at) {
      const std::vector<double> bases = BasesOf(l, x, at);
      std::vector<double> through(at.size());
      for (size_t k = 0; k < at.size(); ++k) {
        through[k] = static_cast<double>(dy[at[k]]) * static_cast<double>(x[at[k]]) *
                     std::pow(bases[k], -l.beta - 1);
      }
      const std::vector<double> sums = WindowSums(through, l.after, l.before);
      for (size_t k = 0; k < at.size(); ++k) {
        dx[at[k]] = Narrow<T>(static_cast<double>(dy[at[k]]) * std::pow(bases[k], -l.beta) -
                              2 * l.alpha * l.beta * static_cast<double>(x[at[k]]) * sums[k]);
      }
    });
    return absl::OkStatus();
  });
}

std::vector<AttrSpec> LrnAttrs() {
  return {{.name = "alpha", .kind = AttrKind::kFloat, .default_value = 1e-4},
          {.name = "beta", .kind = AttrKind::kFloat, .default_value = 0.75},
          {.name = "bias", .kind = AttrKind::kFloat, .default_value = 1.0},
          {.name = "size",
           .kind = AttrKind::kInt,
           .required = true,
           .doc = "of the window of channels, 1 or more"}};
}

}  // namespace

OpDef LRNOp() {
  return {.name = "LRN",
          .doc = "Local response normalization across channels",
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,...]"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = LrnAttrs(),
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = LrnWork};
}

// Not differentiable itself.
OpDef GradLRNOp() {
  return {.name = "grad.LRN",
          .doc = "The gradient of LRN",
          .inputs = {{.name = "dY", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "dX", .same_as = "T"}},
          .attrs = LrnAttrs(),
          .fusion = FusionClass::kReduction,
          .infer = GradInfer,
          .reference = GradReference,
          .sharding = Rules,
          .work = LrnWork};
}

}  // namespace millrace
