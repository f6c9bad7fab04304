// RMSNormalization: over the dims from `axis` on, Y = X / sqrt(mean(X^2) + epsilon) * scale.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/normalization.h"
#include "ops/reference_dispatch.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::StatusOr<int> AxisOf(const Attrs& attrs, const Shape& x) {
  return NormalizeAxis(attrs.Int("axis", -1), x.rank());
}

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const int axis, AxisOf(c.attrs(), x.shape));
  const Shape normalized(x.shape.dims().subspan(axis));
  if (c.input(1).shape != normalized) {
    return BadInputError(StrCat("'scale' must have the shape of the dims from axis ", axis, " on, ",
                                ToString(normalized), ", but has ", ToString(c.input(1).shape)));
  }
  c.set_output(0, x);
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, AxisOf(c.attrs, shape));
  const int64_t rows = NumElements(Shape(shape.dims().first(axis)));
  const int64_t size = c.inputs[1].num_elements();
  const double epsilon = c.attrs.Float("epsilon", kNormalizationEpsilon);
  if (size == 0) return absl::OkStatus();
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    const T* scale = c.inputs[1].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
      double squares = 0;
      for (int64_t i = 0; i < size; ++i) {
        squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      }
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + epsilon);
      for (int64_t i = 0; i < size; ++i) {
        y[i] = Narrow<T>(static_cast<double>(x[i]) * inverse * static_cast<double>(scale[i]));
      }
    }
    return absl::OkStatus();
  });
}

// With r = 1 / sqrt(mean(x^2) + epsilon), z = x r, g = dy scale: dx = r (g - z mean(g z)).
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Shape& shape = f.input_type(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, AxisOf(f.attrs(), shape));
  std::vector<int64_t> axes;
  for (int d = axis; d < shape.rank(); ++d) axes.push_back(d);
  const Term x = f.input(0), dy = f.output_grad(0);
  const Term r = InverseRoot(Mean(x * x, axes), f.attrs().Float("epsilon", kNormalizationEpsilon));
  const Term z = x * r;
  if (f.wants(0)) {
    const Term g = dy * f.input(1);
    f.set_grad(0, r * (g - z * Mean(g * z, axes)));
  }
  if (f.wants(1)) f.set_grad(1, SumTo(dy * z, shape, f.input_type(1).shape));
  return absl::OkStatus();
}

std::optional<RowForm> Form(const NodeQuery& query, std::span<const ScalarTerm> x) {
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = AxisOf(query.attrs, shape);
  if (!axis.ok()) return std::nullopt;
  std::vector<int> axes;
  for (int d = *axis; d < shape.rank(); ++d) axes.push_back(d);
  const ScalarTerm mean = RowMean(x[0] * x[0], RowCount(shape, axes));
  const double epsilon = query.attrs.Float("epsilon", kNormalizationEpsilon);
  return RowForm{std::move(axes), x[0] * ScalarUnary(ScalarOp::kRsqrt, mean + epsilon) * x[1]};
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = AxisOf(query.attrs, shape);
  for (int d = 0; axis.ok() && d < *axis; ++d) {
    if (!Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = rule.outputs[0] = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  return rules;
}

// For each element: square, sum, and the result (2).
Work RmsWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 4 * static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

}  // namespace

OpDef RMSNormalizationOp() {
  return {.name = "RMSNormalization",
          .doc = "X divided by its root mean square over the dims from `axis` on, scaled",
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "scale", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{-1},
                     .doc = "the first dim to normalize over"},
                    EpsilonAttr(),
                    {.name = "stash_type",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{1},
                     .doc = "ONNX's type for the mean; it is f64 here"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kReduction,
          .row = Form,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = RmsWork};
}

}  // namespace millrace
