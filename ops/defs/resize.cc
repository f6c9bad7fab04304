// Resize, and grad.Resize, its transpose. Both are passes along one axis after another
// (ops/resize.h) over f64; nearest mode moves elements and computes nothing.
#include "ops/resize.h"

#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/interpolation.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// Operands 1 to 3 of both ops, which must be known while planning.
struct Constants {
  std::optional<Tensor> roi, scales, sizes;

  ResizeOperands operands() const {
    const auto pointer = [](const std::optional<Tensor>& t) {
      return t.has_value() ? &*t : nullptr;
    };
    return {pointer(roi), pointer(scales), pointer(sizes)};
  }
};

absl::StatusOr<Constants> ConstantsOf(const InferContext& c) {
  Constants constants;
  std::optional<Tensor>* const slots[] = {&constants.roi, &constants.scales, &constants.sizes};
  constexpr std::string_view kNames[] = {"roi", "scales", "sizes"};
  for (int i = 0; i < 3; ++i) {
    if (!c.has_input(i + 1)) continue;
    const Shape& shape = c.input(i + 1).shape;
    if (shape.rank() != 1 || shape[0] > 2 * kMaxRank) {
      return BadInputError(StrCat("'", kNames[i], "' is ", ToString(c.input(i + 1)),
                                  "; expected is a list of one or two numbers per dim"));
    }
    if (shape[0] == 0) continue;
    *slots[i] = c.constant(i + 1);
    if (!slots[i]->has_value()) {
      return BadInputError(
          StrCat("'", kNames[i], "' must be known while planning, but ", c.why_unknown(i + 1)));
    }
  }
  return constants;
}

ResizeOperands OperandsOf(const ReferenceContext& c) {
  const auto pointer = [&](size_t i) {
    return i < c.inputs.size() && c.inputs[i].has_data() ? &c.inputs[i] : nullptr;
  };
  return {pointer(1), pointer(2), pointer(3)};
}

absl::Status CheckType(const Attrs& attrs, DType dtype) {
  if (dtype != DType::kBool || attrs.String("mode", "nearest") == "nearest")
    return absl::OkStatus();
  return BadInputError("bool has no values in between; mode must be 'nearest'");
}

absl::Status Infer(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckType(c.attrs(), c.input(0).dtype));
  MILLRACE_ASSIGN_OR_RETURN(const Constants constants, ConstantsOf(c));
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape,
                            ResizedShape(c.attrs(), c.input(0).shape, constants.operands()));
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// --- Kernels -----------------------------------------------------------------------------------

// Calls f(place of the result, place of the input, weight) for each tap that counts.
template <typename F>
void ForEachWeight(const AxisResampling& axis, F&& f) {
  for (int64_t place = 0; place < axis.out; ++place) {
    if (axis.outside[place] != 0) continue;
    for (int64_t i = place * axis.taps; i < (place + 1) * axis.taps; ++i) {
      if (axis.weights[i] != 0) f(place, axis.places[i], axis.weights[i]);
    }
  }
}

// `x` of `shape` with one axis resampled; `shape` becomes that of the result. Transposed: from the
// result's size back to the input's.
std::vector<double> ResampleAxis(const std::vector<double>& x, Shape& shape,
                                 const AxisResampling& axis, bool transposed) {
  const AxisView view = ViewAround(shape, axis.axis);
  shape[axis.axis] = transposed ? axis.in : axis.out;
  const int64_t size = shape[axis.axis];
  std::vector<double> y(static_cast<size_t>(NumElements(shape)), 0.0);
  for (int64_t o = 0; o < view.outer; ++o) {
    const double* from = x.data() + o * view.size * view.inner;
    double* to = y.data() + o * size * view.inner;
    ForEachWeight(axis, [&](int64_t place, int64_t source, double weight) {
      const double* a = from + (transposed ? place : source) * view.inner;
      double* b = to + (transposed ? source : place) * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) b[i] += weight * a[i];
    });
  }
  return y;
}

// Sets what lies outside along any axis.
void Extrapolate(const Resampling& resampling, std::vector<double>& y) {
  for (const AxisResampling& axis : resampling.axes) {
    const AxisView view = ViewAround(resampling.result, axis.axis);
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t place = 0; place < axis.out; ++place) {
        if (axis.outside[place] == 0) continue;
        double* to = y.data() + (o * view.size + place) * view.inner;
        std::fill(to, to + view.inner, resampling.extrapolation);
      }
    }
  }
}

absl::Status ResampleValues(const Resampling& resampling, const Tensor& x, Tensor& out) {
  return VisitNumeric(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<double> values;
    for (T element : x.data<T>()) values.push_back(static_cast<double>(element));
    Shape shape = x.shape();
    for (const AxisResampling& axis : resampling.axes) {
      values = ResampleAxis(values, shape, axis, /*transposed=*/false);
    }
    Extrapolate(resampling, values);
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Rounded<T>(values[i]);
    return absl::OkStatus();
  });
}

// Rows of whole elements, one axis after another.
absl::Status MoveNearest(const Resampling& resampling, const Tensor& x, Tensor& out) {
  const int64_t element = SizeOf(x.dtype());
  Tensor extrapolation = Tensor::Zeros({x.dtype(), {}});
  extrapolation.Set(0, resampling.extrapolation);
  Tensor current = x;
  for (const AxisResampling& axis : resampling.axes) {
    const AxisView view = ViewAround(current.shape(), axis.axis);
    TensorType type = current.type();
    type.shape[axis.axis] = axis.out;
    MILLRACE_ASSIGN_OR_RETURN(Tensor next, Tensor::Allocate(type));
    const int64_t row = view.inner * element;
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t place = 0; place < axis.out; ++place) {
        std::byte* to = next.mutable_bytes() + (o * axis.out + place) * row;
        const std::byte* from = current.bytes() + (o * view.size + axis.places[place]) * row;
        if (axis.outside[place] == 0) {
          std::memcpy(to, from, static_cast<size_t>(row));
          continue;
        }
        for (int64_t i = 0; i < view.inner; ++i) {
          std::memcpy(to + i * element, extrapolation.bytes(), static_cast<size_t>(element));
        }
      }
    }
    current = std::move(next);
  }
  std::memcpy(out.mutable_bytes(), current.bytes(), static_cast<size_t>(out.size_bytes()));
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Resampling resampling,
                            ResamplingOf(c.attrs, c.inputs[0].shape(), OperandsOf(c)));
  return resampling.nearest ? MoveNearest(resampling, c.inputs[0], c.outputs[0])
                            : ResampleValues(resampling, c.inputs[0], c.outputs[0]);
}

// --- Gradient ----------------------------------------------------------------------------------

Term Omitted(const Term& like) { return {like.builder, ValueId(), like.dtype}; }

// The operands after the first, as they are.
std::vector<Term> WithSameOperands(const Forward& f, const Term& first) {
  std::vector<Term> operands = {first};
  for (int i = 1; i < f.num_inputs(); ++i) {
    operands.push_back(f.has_input(i) ? f.input(i) : Omitted(first));
  }
  return operands;
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  Attrs attrs = f.attrs();
  const std::span<const int64_t> dims = f.input_type(0).shape.dims();
  attrs.Set("input_shape", std::vector<int64_t>(dims.begin(), dims.end()));
  attrs.Erase("extrapolation_value");
  f.set_grad(0, Apply("grad.Resize", WithSameOperands(f, f.output_grad(0)), std::move(attrs)));
  return absl::OkStatus();
}

absl::StatusOr<Shape> InputShape(const Attrs& attrs) {
  const std::vector<int64_t> dims = attrs.Ints("input_shape");
  if (dims.size() > kMaxRank) return BadInputError("'input_shape' has too many dims");
  const Shape shape(dims);
  if (CheckedNumElements(shape).has_value()) return shape;
  return BadInputError(StrCat("'input_shape' is ", ToString(shape)));
}

absl::Status InferGrad(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, InputShape(c.attrs()));
  MILLRACE_ASSIGN_OR_RETURN(const Constants constants, ConstantsOf(c));
  MILLRACE_ASSIGN_OR_RETURN(const Shape resized,
                            ResizedShape(c.attrs(), shape, constants.operands()));
  if (c.input(0).shape != resized) {
    return BadInputError(StrCat("dY must be ", ToString(resized), " for this resize"));
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status GradReference(const ReferenceContext& c) {
  Tensor& out = c.outputs[0];
  if (out.num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Resampling resampling,
                            ResamplingOf(c.attrs, out.shape(), OperandsOf(c)));
  return VisitFloats(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<double> values;
    for (T element : c.inputs[0].data<T>()) values.push_back(static_cast<double>(element));
    Shape shape = c.inputs[0].shape();
    for (size_t i = resampling.axes.size(); i-- > 0;) {
      values = ResampleAxis(values, shape, resampling.axes[i], /*transposed=*/true);
    }
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(values[i]);
    return absl::OkStatus();
  });
}

absl::Status GradGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  Attrs attrs = f.attrs();
  attrs.Erase("input_shape");
  f.set_grad(0, Apply("Resize", WithSameOperands(f, f.output_grad(0)), std::move(attrs)));
  return absl::OkStatus();
}

// --- Sharding, work ----------------------------------------------------------------------------

// Dims that are not among the axes stay what they are; of the others nothing can be said without
// the operands' data. Both ops are linear, but for what is extrapolated.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const TensorType& x = *query.inputs[0];
  if (query.attrs.Find("axes") != nullptr) {
    const absl::StatusOr<std::vector<int>> axes =
        NormalizeAxes(query.attrs.Ints("axes"), x.shape.rank());
    for (int d = 0; axes.ok() && d < x.shape.rank(); ++d) {
      if (std::find(axes->begin(), axes->end(), d) != axes->end()) continue;
      if (query.op != "Resize" || !Divisible(x.shape, d)) continue;
      ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
      rule.inputs[0] = rule.outputs[0] = ShardDim(d);
      rules.push_back(std::move(rule));
    }
  }
  const bool extrapolates =
      query.op == "Resize" && query.attrs.Float("extrapolation_value", 0) != 0;
  if (IsFloat(x.dtype) && !extrapolates) AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

// As for a filter of full width along every axis that changes size.
Work ResizeWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const std::string mode = query.attrs.String("mode", "nearest");
  if (mode == "nearest") return work;
  const Shape &in = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  double points = static_cast<double>(NumElements(in));
  for (int d = 0; d < in.rank(); ++d) {
    if (in[d] == out[d] || in[d] == 0) continue;
    points *= static_cast<double>(out[d]) / static_cast<double>(in[d]);
    work.flops += 2 * points * (mode == "cubic" ? 4 : 2);
  }
  return work;
}

AttrSpec Choice(std::string name, std::string otherwise, std::vector<std::string> choices) {
  return {.name = std::move(name),
          .kind = AttrKind::kString,
          .default_value = std::move(otherwise),
          .choices = std::move(choices)};
}

std::vector<AttrSpec> CommonAttrs() {
  return {{.name = "antialias",
           .kind = AttrKind::kBool,
           .default_value = false,
           .doc = "stretch the filter where the result is smaller"},
          {.name = "axes",
           .kind = AttrKind::kInts,
           .doc = "that roi, scales and sizes speak of, in their order; absent: all"},
          Choice("coordinate_transformation_mode", "half_pixel",
                 {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                  "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}),
          {.name = "cubic_coeff_a", .kind = AttrKind::kFloat, .default_value = -0.75},
          {.name = "exclude_outside",
           .kind = AttrKind::kBool,
           .default_value = false,
           .doc = "leave out taps beyond the edge instead of repeating it"},
          Choice("keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"}),
          Choice("mode", "nearest", {"nearest", "linear", "cubic"}),
          Choice("nearest_mode", "round_prefer_floor",
                 {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})};
}

std::vector<OperandSpec> Operands(OperandSpec first) {
  return {std::move(first),
          {.name = "roi",
           .dtypes = FloatTypes(),
           .optional = true,
           .doc = "for tf_crop_and_resize: where each axis begins, then where each ends, in [0,1]"},
          {.name = "scales", .dtypes = {DType::kF32}, .optional = true, .doc = "per axis; or"},
          {.name = "sizes", .dtypes = {DType::kI64}, .optional = true, .doc = "per axis"}};
}

}  // namespace

OpDef ResizeOp() {
  OpDef op{.name = "Resize",
           .doc = "X resampled along axes to other sizes",
           .inputs = Operands({.name = "X", .same_as = "T"}),
           .outputs = {{.name = "Y", .same_as = "T"}},
           .attrs = CommonAttrs(),
           .traits = {.host_inputs = {1, 2, 3}},
           .infer = Infer,
           .reference = Reference,
           .gradient = Gradient,
           .sharding = Rules,
           .work = ResizeWork};
  op.attrs.push_back({.name = "extrapolation_value",
                      .kind = AttrKind::kFloat,
                      .default_value = 0.0,
                      .doc = "outside the input, for tf_crop_and_resize"});
  return op;
}

OpDef GradResizeOp() {
  OpDef op{.name = "grad.Resize",
           .doc = "The gradient of Resize by X",
           .inputs = Operands({.name = "dY", .dtypes = FloatTypes(), .same_as = "T"}),
           .outputs = {{.name = "dX", .same_as = "T"}},
           .attrs = CommonAttrs(),
           .traits = {.host_inputs = {1, 2, 3}},
           .infer = InferGrad,
           .reference = GradReference,
           .gradient = GradGradient,
           .sharding = Rules,
           .work = ResizeWork};
  op.attrs.push_back(
      {.name = "input_shape", .kind = AttrKind::kInts, .required = true, .doc = "dims of X"});
  return op;
}

}  // namespace millrace
