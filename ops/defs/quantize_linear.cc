// QuantizeLinear: y = saturate(round(x / scale) + zero point), ties to even. DequantizeLinear:
// (x - zero point) * scale. Scale and zero point are one for the tensor, one for each position
// along `axis`, or, with `block_size`, one for each block of positions along it.
// DynamicQuantizeLinear finds them from the data.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/quantization.h"
#include "ops/reference_dispatch.h"

namespace millrace {
namespace {

std::vector<DType> QuantizedTypes() { return {DType::kI8, DType::kU8, DType::kI16, DType::kU16}; }

// Where the scale of an element is found.
struct Grid {
  bool one = true;                           // for all
  AxisView x;                                // around the axis
  int64_t block = 1, blocks = 1, inner = 1;  // `inner`: scales at one position of the axis

  int64_t ScaleOf(int64_t element) const {
    if (one) return 0;
    const int64_t row = element / x.inner, block_at = row % x.size / block;
    const int64_t outer = inner == x.inner ? row / x.size : 0;
    return (outer * blocks + block_at) * inner + element % inner;
  }
};

absl::Status CheckBlocks(const Shape& x, const Shape& scale, int axis, int64_t block) {
  Shape expected = x;
  if (block > 0) expected[axis] = (x[axis] + block - 1) / block;
  if (block > 0 && scale == expected) return absl::OkStatus();
  return BadInputError(StrCat("with block_size ", block, " along axis ", axis,
                              " the scale must be ", ToString(expected), ", but is ",
                              ToString(scale)));
}

absl::StatusOr<Grid> GridOf(const Attrs& attrs, const Shape& x, const Shape& scale) {
  Grid grid;
  const int64_t block = attrs.Int("block_size", 0);
  if (block == 0 && scale.rank() <= 1 && NumElements(scale) == 1) return grid;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.Int("axis", 1), x.rank()));
  grid.one = false;
  grid.x = ViewAround(x, axis);
  grid.blocks = x[axis];
  if (block != 0) {
    MILLRACE_RETURN_IF_ERROR(CheckBlocks(x, scale, axis, block));
    grid.block = block;
    grid.blocks = scale[axis];
    grid.inner = grid.x.inner;
  } else if (scale != Shape{x[axis]}) {
    return BadInputError(StrCat("the scale must be one element, or [", x[axis], "] along axis ",
                                axis, ", but is ", ToString(scale)));
  }
  return grid;
}

absl::Status CheckOperands(const InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(GridOf(c.attrs(), c.input(0).shape, c.input(1).shape).status());
  if (!c.has_input(2) || c.input(2).shape == c.input(1).shape) return absl::OkStatus();
  return BadInputError(StrCat("scale and zero point differ in shape: ", ToString(c.input(1).shape),
                              " and ", ToString(c.input(2).shape)));
}

double ZeroPointAt(const ReferenceContext& c, int64_t at) {
  return c.inputs.size() > 2 && c.inputs[2].has_data() ? c.inputs[2].AsDouble(at) : 0;
}

std::vector<AttrSpec> GridAttrs() {
  return {{.name = "axis",
           .kind = AttrKind::kInt,
           .default_value = int64_t{1},
           .doc = "along which scales change, where there is more than one"},
          {.name = "block_size",
           .kind = AttrKind::kInt,
           .default_value = int64_t{0},
           .doc = "positions along the axis that share a scale; 0: none do"}};
}

// --- QuantizeLinear ----------------------------------------------------------------------------

absl::Status InferQuantize(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckOperands(c));
  DType dtype = c.has_input(2) ? c.input(2).dtype : DType::kU8;
  if (const std::string name = c.attrs().String("output_dtype", ""); !name.empty()) {
    const std::optional<DType> asked = ParseDType(name);
    if (c.has_input(2) && asked != dtype) {
      return BadInputError(
          StrCat("'output_dtype' is ", name, ", the zero point ", DTypeName(dtype)));
    }
    dtype = *asked;
  }
  c.set_output(0, {dtype, c.input(0).shape});
  return absl::OkStatus();
}

// Divided in the type of the scale, but at least f32, as ONNX does: ties depend on it.
absl::Status QuantizeReference(const ReferenceContext& c) {
  const Tensor &x = c.inputs[0], &scale = c.inputs[1];
  MILLRACE_ASSIGN_OR_RETURN(const Grid grid, GridOf(c.attrs, x.shape(), scale.shape()));
  return VisitIntegers(c.outputs[0].dtype(), [&](auto tag) {
    using Q = typename decltype(tag)::type;
    const std::span<Q> y = c.outputs[0].mutable_data<Q>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t at = grid.ScaleOf(i);
      double quotient = x.AsDouble(i) / scale.AsDouble(at);
      if (scale.dtype() != DType::kF64) {
        quotient = static_cast<float>(x.AsDouble(i)) / static_cast<float>(scale.AsDouble(at));
      }
      y[i] = Saturate<Q>(RoundHalfEven(quotient) + ZeroPointAt(c, at));
    }
    return absl::OkStatus();
  });
}

// --- DequantizeLinear --------------------------------------------------------------------------

absl::Status InferDequantize(InferContext& c) {
  MILLRACE_RETURN_IF_ERROR(CheckOperands(c));
  c.set_output(0, {c.input(1).dtype, c.input(0).shape});
  return absl::OkStatus();
}

absl::Status DequantizeReference(const ReferenceContext& c) {
  const Tensor &x = c.inputs[0], &scale = c.inputs[1];
  MILLRACE_ASSIGN_OR_RETURN(const Grid grid, GridOf(c.attrs, x.shape(), scale.shape()));
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<T> y = c.outputs[0].mutable_data<T>();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t at = grid.ScaleOf(i);
      y[i] = Narrow<T>((x.AsDouble(i) - ZeroPointAt(c, at)) * scale.AsDouble(at));
    }
    return absl::OkStatus();
  });
}

// --- DynamicQuantizeLinear ---------------------------------------------------------------------

absl::Status InferDynamic(InferContext& c) {
  c.set_output(0, {DType::kU8, c.input(0).shape});
  c.set_output(1, {DType::kF32, {}});
  c.set_output(2, {DType::kU8, {}});
  return absl::OkStatus();
}

// The range is that of the data and 0, in 255 steps; data that are all 0 get a scale of 1.
absl::Status DynamicReference(const ReferenceContext& c) {
  const std::span<const float> x = c.inputs[0].data<float>();
  float low = 0, high = 0;
  for (const float e : x) {
    low = std::min(low, e);
    high = std::max(high, e);
  }
  const float scale = high == low ? 1.0f : (high - low) / 255;
  const uint8_t zero = Saturate<uint8_t>(RoundHalfEven(-low / scale));
  if (c.outputs[0].has_data()) {
    const std::span<uint8_t> y = c.outputs[0].mutable_data<uint8_t>();
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = Saturate<uint8_t>(RoundHalfEven(x[i] / scale) + zero);
    }
  }
  if (c.outputs.size() > 1 && c.outputs[1].has_data()) c.outputs[1].Set(0, scale);
  if (c.outputs.size() > 2 && c.outputs[2].has_data()) c.outputs[2].Set(0, zero);
  return absl::OkStatus();
}

std::vector<DType> With(std::vector<DType> types, DType another) {
  types.push_back(another);
  return types;
}

}  // namespace

OpDef QuantizeLinearOp() {
  OpDef op = {.name = "QuantizeLinear",
              .doc = "x / scale + zero point, as integers",
              .tier = 2,
              .inputs = {{.name = "x", .dtypes = With(FloatTypes(), DType::kI32)},
                         {.name = "y_scale", .dtypes = FloatTypes()},
                         {.name = "y_zero_point",
                          .dtypes = QuantizedTypes(),
                          .optional = true,
                          .doc = "absent: 0, as u8 unless output_dtype says otherwise"}},
              .outputs = {{.name = "y", .doc = "in the type of the zero point"}},
              .attrs = GridAttrs(),
              .infer = InferQuantize,
              .reference = QuantizeReference};
  op.attrs.push_back({.name = "output_dtype",
                      .kind = AttrKind::kString,
                      .choices = {"i8", "u8", "i16", "u16"},
                      .doc = "the type of y, where there is no zero point"});
  return op;
}

OpDef DequantizeLinearOp() {
  return {.name = "DequantizeLinear",
          .doc = "(x - zero point) * scale",
          .tier = 2,
          .inputs = {{.name = "x", .dtypes = With(QuantizedTypes(), DType::kI32), .same_as = "Q"},
                     {.name = "x_scale", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "x_zero_point",
                      .dtypes = With(QuantizedTypes(), DType::kI32),
                      .optional = true,
                      .same_as = "Q",
                      .doc = "absent: 0"}},
          .outputs = {{.name = "y", .same_as = "T"}},
          .attrs = GridAttrs(),
          .infer = InferDequantize,
          .reference = DequantizeReference};
}

OpDef DynamicQuantizeLinearOp() {
  return {.name = "DynamicQuantizeLinear",
          .doc = "x as u8, with the scale and zero point that fit its range",
          .tier = 2,
          .inputs = {{.name = "x", .dtypes = {DType::kF32}}},
          .outputs = {{.name = "y"}, {.name = "y_scale"}, {.name = "y_zero_point"}},
          .infer = InferDynamic,
          .reference = DynamicReference};
}

}  // namespace millrace
