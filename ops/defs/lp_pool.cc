// LpPool: the p-norm of the elements in each place of a window; GlobalLpPool: that of each channel.
#include <cmath>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/pool.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

absl::StatusOr<double> NormOf(const Attrs& attrs) {
  const int64_t p = attrs.Int("p", 2);
  if (p < 1) return BadInputError(StrCat("'p' is ", p, ", expected is 1 or more"));
  return static_cast<double>(p);
}

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_RETURN_IF_ERROR(NormOf(c.attrs()).status());
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs(), x.shape));
  c.set_output(0, {x.dtype, PoolResultShape(x.shape, w)});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();  // dims may be huge
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const double p, NormOf(c.attrs));
  MILLRACE_ASSIGN_OR_RETURN(const Window w, PoolWindow(c.attrs, shape));
  const int64_t in = Volume(w.in), out = Volume(w.out);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    std::vector<double> sums(out);
    for (int64_t channel = 0; channel < shape[0] * shape[1]; ++channel, x += in, y += out) {
      std::fill(sums.begin(), sums.end(), 0);
      ForEachTap(w, [&](int64_t o, int64_t i, int64_t) {
        sums[o] += std::pow(std::abs(static_cast<double>(x[i])), p);
      });
      for (int64_t o = 0; o < out; ++o) y[o] = Narrow<T>(std::pow(sums[o], 1 / p));
    }
    return absl::OkStatus();
  });
}

Work LpWork(const NodeQuery& query) { return PoolWork(query, query.outputs[0]->shape); }

absl::Status GlobalInfer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_RETURN_IF_ERROR(NormOf(c.attrs()).status());
  if (x.shape.rank() < 3) {
    return BadInputError(StrCat("X must be [N,C,spatial...], but has rank ", x.shape.rank()));
  }
  Shape shape{x.shape[0], x.shape[1]};
  while (shape.rank() < x.shape.rank()) shape.push_back(1);
  c.set_output(0, {x.dtype, shape});
  return absl::OkStatus();
}

absl::Status GlobalReference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const double p, NormOf(c.attrs));
  const int64_t size = ElementsFrom(c.inputs[0].shape(), 2);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    for (T& y : c.outputs[0].mutable_data<T>()) {
      double sum = 0;
      for (int64_t i = 0; i < size; ++i) sum += std::pow(std::abs(static_cast<double>(x[i])), p);
      y = Narrow<T>(std::pow(sum, 1 / p));
      x += size;
    }
    return absl::OkStatus();
  });
}

OpDef Lp(std::string name, std::string doc) {
  return {
      .name = std::move(name),
      .doc = std::move(doc),
      .tier = 2,
      .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"}},
      .outputs = {{.name = "Y", .same_as = "T"}},
      .attrs = {{.name = "p",
                 .kind = AttrKind::kInt,
                 .default_value = int64_t{2},
                 .doc = "of the p-norm, 1 or more"}},
      .infer = nullptr,
      .sharding = PoolRules};
}

}  // namespace

OpDef LpPoolOp() {
  OpDef op = Lp("LpPool", "The p-norm of the elements in each place of a window");
  std::vector<AttrSpec> attrs = PoolAttrs();
  for (AttrSpec& attr : attrs) op.attrs.push_back(std::move(attr));
  op.infer = Infer;
  op.reference = Reference;
  op.work = LpWork;
  return op;
}

OpDef GlobalLpPoolOp() {
  OpDef op = Lp("GlobalLpPool", "The p-norm of each channel");
  op.fusion = FusionClass::kReduction;
  op.infer = GlobalInfer;
  op.reference = GlobalReference;
  return op;
}

}  // namespace millrace
