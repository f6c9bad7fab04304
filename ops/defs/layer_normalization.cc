// LayerNormalization: over the dims from `axis` on,
//   Y = (X - mean) / sqrt(variance + epsilon) * Scale + B
// with the variance of the population. Mean and InvStdDev are f32, or f64 for f64 inputs
// (`stash_type` says so explicitly).
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/normalization.h"
#include "ops/reference_dispatch.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// Types of Mean and InvStdDev by ONNX's number, where `stash_type` is given.
absl::StatusOr<DType> StashType(const Attrs& attrs, DType x) {
  if (attrs.Find("stash_type") == nullptr) return x == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t number = attrs.Int("stash_type", 1);
  if (number == 1) return DType::kF32;
  if (number == 11) return DType::kF64;
  return BadInputError(StrCat("'stash_type' is ", number, ", known are 1 (f32) and 11 (f64)"));
}

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs().Int("axis", -1), x.shape.rank()));
  const Shape normalized(x.shape.dims().subspan(axis));
  for (int i = 1; i <= 2; ++i) {
    if (!c.has_input(i) || c.input(i).shape == normalized) continue;
    return BadInputError(StrCat(i == 1 ? "'Scale'" : "'B'",
                                " must have the shape of the dims from axis ", axis, " on, ",
                                ToString(normalized), ", but has ", ToString(c.input(i).shape)));
  }
  MILLRACE_ASSIGN_OR_RETURN(const DType stash, StashType(c.attrs(), x.dtype));
  Shape kept = x.shape;
  for (int d = axis; d < kept.rank(); ++d) kept[d] = 1;
  c.set_output(0, x);
  c.set_output(1, {stash, kept});
  c.set_output(2, {stash, kept});
  return absl::OkStatus();
}

bool Wants(const ReferenceContext& c, size_t output) {
  return output < c.outputs.size() && c.outputs[output].has_data();
}

// Writes statistic i of an optional result.
void Stash(const ReferenceContext& c, size_t output, int64_t i, double value) {
  if (Wants(c, output)) c.outputs[output].Set(i, value);
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  if (x.num_elements() == 0 && !Wants(c, 1) && !Wants(c, 2)) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", -1), x.shape().rank()));
  const int64_t rows = NumElements(Shape(x.shape().dims().first(axis)));
  const int64_t size = NumElements(Shape(x.shape().dims().subspan(axis)));
  const double epsilon = c.attrs.Float("epsilon", kNormalizationEpsilon);
  const bool has_bias = c.inputs.size() > 2 && c.inputs[2].has_data();
  return VisitFloats(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* scale = c.inputs[1].data<T>().data();
    const T* bias = has_bias ? c.inputs[2].data<T>().data() : nullptr;
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x.data<T>().data() + row * size;
      const auto [mean, variance] = MomentsOf(from, size);
      const double inverse = 1 / std::sqrt(variance + epsilon);
      Stash(c, 1, row, mean);
      Stash(c, 2, row, inverse);
      if (!Wants(c, 0)) continue;
      T* to = c.outputs[0].mutable_data<T>().data() + row * size;
      for (int64_t i = 0; i < size; ++i) {
        const double y = (static_cast<double>(from[i]) - mean) * inverse;
        const double b = has_bias ? static_cast<double>(bias[i]) : 0;
        to[i] = Narrow<T>(y * static_cast<double>(scale[i]) + b);
      }
    }
    return absl::OkStatus();
  });
}

// With z = (x - m) r, g = dy * Scale, means taken over the normalized dims, n elements each:
//   dx = r (g - mean(g) - z mean(g z)) + (dm - dr r^2 z) / n
// where dm, dr are what flows back from Mean and InvStdDev.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const TensorType& type = f.input_type(0);
  const int rank = type.shape.rank();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(f.attrs().Int("axis", -1), rank));
  std::vector<int64_t> axes;
  for (int d = axis; d < rank; ++d) axes.push_back(d);
  const int64_t n = NumElements(Shape(type.shape.dims().subspan(axis)));

  const Term x = f.input(0);
  const Term m = f.has_output(1) ? CastTo(f.output(1), type.dtype) : Mean(x, axes);
  const Term centered = x - m;
  const Term r = f.has_output(2) ? CastTo(f.output(2), type.dtype)
                                 : InverseRoot(Mean(centered * centered, axes),
                                               f.attrs().Float("epsilon", kNormalizationEpsilon));
  const Standardized s = {centered * r, r};

  std::optional<Term> dx;
  const auto add = [&](const Term& term) { dx = dx.has_value() ? *dx + term : term; };
  if (f.has_output_grad(0)) {
    const Term dy = f.output_grad(0), g = dy * f.input(1);
    const Shape normalized(type.shape.dims().subspan(axis));
    if (f.wants(0)) add(StandardizeGrad(s, g, axes));
    if (f.wants(1)) f.set_grad(1, SumTo(dy * s.z, type.shape, normalized));
    if (f.wants(2)) f.set_grad(2, SumTo(dy, type.shape, normalized));
  }
  if (f.wants(0) && n > 0) {
    const double share = 1.0 / static_cast<double>(n);
    if (f.has_output_grad(1)) {
      const Term dm = CastTo(f.output_grad(1), type.dtype) * share;
      add(ExpandTo(dm, type.shape));
    }
    if (f.has_output_grad(2)) add(-(CastTo(f.output_grad(2), type.dtype) * share * r * r) * s.z);
  }
  if (dx.has_value()) f.set_grad(0, *dx);
  return absl::OkStatus();
}

// Scale and B have the shape of the normalized dims, the last ones.
std::optional<RowForm> Form(const NodeQuery& query, std::span<const ScalarTerm> x) {
  const Shape& shape = query.inputs[0]->shape;
  const auto axis = NormalizeAxis(query.attrs.Int("axis", -1), shape.rank());
  if (!axis.ok()) return std::nullopt;
  std::vector<int> axes;
  for (int d = *axis; d < shape.rank(); ++d) axes.push_back(d);
  const double count = RowCount(shape, axes);
  const ScalarTerm centered = x[0] - RowMean(x[0], count);
  const ScalarTerm variance = RowMean(centered * centered, count);
  const double epsilon = query.attrs.Float("epsilon", kNormalizationEpsilon);
  ScalarTerm y = centered * ScalarUnary(ScalarOp::kRsqrt, variance + epsilon) * x[1];
  if (x.size() > 2 && x[2].valid()) y = y + x[2];
  return RowForm{std::move(axes), y};
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", -1), shape.rank());
  for (int d = 0; axis.ok() && d < *axis; ++d) {
    if (!Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = ShardDim(d);
    for (AxisSharding& output : rule.outputs) output = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

OpDef LayerNormalizationOp() {
  return {.name = "LayerNormalization",
          .doc = "X normalized over the dims from `axis` on, scaled and shifted",
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "Scale", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "B", .dtypes = FloatTypes(), .optional = true, .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"},
                      {.name = "Mean", .optional = true, .same_as = "U"},
                      {.name = "InvStdDev", .optional = true, .same_as = "U"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{-1},
                     .doc = "the first dim to normalize over"},
                    EpsilonAttr(),
                    {.name = "stash_type",
                     .kind = AttrKind::kInt,
                     .doc = "type of Mean and InvStdDev: 1 is f32, 11 is f64; absent: f32, but f64 "
                            "for f64 inputs"}},
          .fusion = FusionClass::kReduction,
          .row = Form,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = NormalizationWork};
}

}  // namespace millrace
