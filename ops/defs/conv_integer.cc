// ConvInteger: a convolution of bytes, less their zero points, in i32; padding stands for 0, that
// is, the zero point. QLinearConv: the same, with a bias in i32, scaled to bytes again. The zero
// point and scale of W may change by output channel.
#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/quantization.h"

namespace millrace {
namespace {

std::vector<int64_t> Convolve(const Convolution& conv, const std::vector<int64_t>& x,
                              const std::vector<int64_t>& w) {
  const Window& window = conv.window;
  const int64_t in = Volume(window.in), out = Volume(window.out), kernel = Volume(window.kernel);
  std::vector<int64_t> sums(NumElements(ResultShape(conv)));
  if (sums.empty()) return sums;
  ForEachChannelPair(conv, [&](int64_t x_at, int64_t w_at, int64_t y_at) {
    ForEachTap(window, [&](int64_t o, int64_t i, int64_t k) {
      sums[y_at * out + o] += x[x_at * in + i] * w[w_at * kernel + k];
    });
  });
  return sums;
}

// Dims behind W's output channels, and behind Y's channels.
int AfterW(const Shape& w) { return w.rank() - 1; }
int AfterY(const Shape& w) { return w.rank() - 2; }

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &w = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs(), x, w));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 2, "x_zero_point", 0, {}));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 3, "w_zero_point", AfterW(w), w));
  c.set_output(0, {DType::kI32, ResultShape(conv)});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape &x = c.inputs[0].shape(), &w = c.inputs[1].shape();
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs, x, w));
  const std::vector<int64_t> sums = Convolve(conv, Centered(c.inputs[0], ParamOf(c, 2, 0)),
                                             Centered(c.inputs[1], ParamOf(c, 3, AfterW(w))));
  const std::span<int32_t> y = c.outputs[0].mutable_data<int32_t>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(sums[i]);
  return absl::OkStatus();
}

absl::Status InferQLinear(InferContext& c) {
  const Shape &x = c.input(0).shape, &w = c.input(3).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs(), x, w));
  const Shape y = ResultShape(conv);
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 1, "x_scale", 0, {}));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 2, "x_zero_point", 0, {}));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 4, "w_scale", AfterY(w), y));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 5, "w_zero_point", AfterW(w), w));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 6, "y_scale", 0, {}));
  MILLRACE_RETURN_IF_ERROR(CheckParam(c, 7, "y_zero_point", 0, {}));
  if (c.has_input(8) && c.input(8).shape != Shape{w[0]}) {
    return BadInputError(StrCat("B must be [", w[0], "], but is ", ToString(c.input(8).shape)));
  }
  c.set_output(0, {c.input(7).dtype, y});
  return absl::OkStatus();
}

absl::Status QLinearReference(const ReferenceContext& c) {
  const Shape &x = c.inputs[0].shape(), &w = c.inputs[3].shape();
  MILLRACE_ASSIGN_OR_RETURN(const Convolution conv, ConvolutionOf(c.attrs, x, w));
  std::vector<int64_t> sums = Convolve(conv, Centered(c.inputs[0], ParamOf(c, 2, 0)),
                                       Centered(c.inputs[3], ParamOf(c, 5, AfterW(w))));
  if (c.inputs.size() > 8 && c.inputs[8].has_data()) {
    const std::span<const int32_t> bias = c.inputs[8].data<int32_t>();
    const auto positions = static_cast<size_t>(Volume(conv.window.out));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += bias[i / positions % bias.size()];
  }
  return StoreQuantized(
      sums, {ParamOf(c, 1, 0), ParamOf(c, 4, AfterY(w)), ParamOf(c, 6, 0), ParamOf(c, 7, 0)},
      c.outputs[0]);
}

AttrSpec KernelShape() {
  return {
      .name = "kernel_shape", .kind = AttrKind::kInts, .doc = "if given, the spatial dims of W"};
}

}  // namespace

OpDef ConvIntegerOp() {
  return {.name = "ConvInteger",
          .doc = "A convolution of bytes over 1 to 3 spatial dims, in i32",
          .tier = 2,
          .inputs =
              {{.name = "x", .dtypes = ByteTypes(), .same_as = "X", .doc = "[N,C,spatial...]"},
               {.name = "w", .dtypes = ByteTypes(), .same_as = "W", .doc = "[M,C/group,kernel...]"},
               {.name = "x_zero_point",
                .dtypes = ByteTypes(),
                .optional = true,
                .same_as = "X",
                .doc = "one; absent: 0"},
               {.name = "w_zero_point",
                .dtypes = ByteTypes(),
                .optional = true,
                .same_as = "W",
                .doc = "one, or [M]; absent: 0"}},
          .outputs = {{.name = "y", .doc = "[N,M,spatial...]"}},
          .attrs = ConvAttrs(KernelShape()),
          .fusion = FusionClass::kContraction,
          .infer = Infer,
          .reference = Reference};
}

OpDef QLinearConvOp() {
  const std::vector<DType> bytes = ByteTypes(), floats = {DType::kF32};
  return {
      .name = "QLinearConv",
      .doc = "A convolution of quantized elements over 1 to 3 spatial dims, quantized",
      .tier = 2,
      .inputs = {{.name = "x", .dtypes = bytes, .same_as = "X", .doc = "[N,C,spatial...]"},
                 {.name = "x_scale", .dtypes = floats},
                 {.name = "x_zero_point", .dtypes = bytes, .same_as = "X"},
                 {.name = "w", .dtypes = bytes, .same_as = "W", .doc = "[M,C/group,kernel...]"},
                 {.name = "w_scale", .dtypes = floats, .doc = "one, or [M]"},
                 {.name = "w_zero_point", .dtypes = bytes, .same_as = "W", .doc = "one, or [M]"},
                 {.name = "y_scale", .dtypes = floats},
                 {.name = "y_zero_point", .dtypes = bytes},
                 {.name = "B",
                  .dtypes = {DType::kI32},
                  .optional = true,
                  .doc = "[M], with scale x_scale * w_scale and zero point 0"}},
      .outputs = {{.name = "y", .doc = "[N,M,spatial...], in the type of y_zero_point"}},
      .attrs = ConvAttrs(KernelShape()),
      .fusion = FusionClass::kContraction,
      .infer = InferQLinear,
      .reference = QLinearReference};
}

}  // namespace millrace
