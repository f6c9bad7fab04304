// DeformConv is Conv over two spatial dims whose taps lie where an offset moves them, between
// elements if need be, and count as much as a mask says. Groups of input channels share offsets.
#include "graph/strings.h"
#include "ops/convolution.h"
#include "ops/dtypes.h"
#include "ops/interpolation.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct Deformation {
  Convolution conv;
  int64_t groups = 1;    // of offsets
  int64_t channels = 1;  // of the input that share one
};

absl::StatusOr<Deformation> DeformationOf(const Attrs& attrs, const Shape& x, const Shape& w) {
  if (x.rank() != 4) return BadInputError(StrCat("X must be [N,C,H,W], but is ", ToString(x)));
  Deformation d;
  MILLRACE_ASSIGN_OR_RETURN(d.conv, ConvolutionOf(attrs, x, w));
  d.groups = attrs.Int("offset_group", 1);
  if (d.groups < 1 || x[1] % d.groups != 0) {
    return BadInputError(StrCat(x[1], " channels do not divide into ", d.groups, " offset groups"));
  }
  d.channels = x[1] / d.groups;
  return d;
}

absl::Status CheckShape(std::string_view name, const Shape& shape, const Shape& expected) {
  if (shape == expected) return absl::OkStatus();
  return BadInputError(
      StrCat("'", name, "' must be ", ToString(expected), ", not ", ToString(shape)));
}

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &w = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Deformation d, DeformationOf(c.attrs(), x, w));
  const std::vector<int64_t> kernel = c.attrs().Ints("kernel_shape");
  if (!kernel.empty() && kernel != std::vector<int64_t>{w[2], w[3]}) {
    return BadInputError(StrCat("'kernel_shape' is not that of W, ", ToString(w)));
  }
  const Shape y = ResultShape(d.conv);
  const std::optional<int64_t> taps = CheckedNumElements({d.groups, w[2], w[3], 2});
  if (!taps.has_value()) return BadInputError("the kernel is too large");
  MILLRACE_RETURN_IF_ERROR(CheckShape("offset", c.input(2).shape, {x[0], *taps, y[2], y[3]}));
  if (c.has_input(3)) MILLRACE_RETURN_IF_ERROR(CheckShape("B", c.input(3).shape, {w[0]}));
  if (c.has_input(4)) {
    MILLRACE_RETURN_IF_ERROR(CheckShape("mask", c.input(4).shape, {x[0], *taps / 2, y[2], y[3]}));
  }
  c.set_output(0, {c.input(0).dtype, y});
  return absl::OkStatus();
}

// The operands of one image, and how their elements are counted.
template <typename T>
struct Image {
  const T* x;
  const T* offset;
  const T* mask;  // null: all ones
  const Window& window;
  int64_t places;

  // X's channel at the tap (row, column) of the window at `place`, by offset group `group`.
  double Sample(int64_t channel, int64_t group, int64_t place, int64_t row, int64_t column) const {
    const int64_t height = window.in[1], width = window.in[2];
    const int64_t taps = window.kernel[1] * window.kernel[2];
    const int64_t tap = group * taps + row * window.kernel[2] + column;
    const int64_t out_width = window.out[2];
    const double y = static_cast<double>(place / out_width * window.strides[1] -
                                         window.pads_begin[1] + row * window.dilations[1]) +
                     static_cast<double>(offset[2 * tap * places + place]);
    const double z = static_cast<double>(place % out_width * window.strides[2] -
                                         window.pads_begin[2] + column * window.dilations[2]) +
                     static_cast<double>(offset[(2 * tap + 1) * places + place]);
    const T* image = x + channel * height * width;
    const double value =
        SumOfTaps(LinearTaps(y, height), LinearTaps(z, width),
                  [&](int64_t i, int64_t j) { return static_cast<double>(image[i * width + j]); });
    return mask == nullptr ? value : value * static_cast<double>(mask[tap * places + place]);
  }
};

absl::Status Reference(const ReferenceContext& c) {
  const Shape &x = c.inputs[0].shape(), &w = c.inputs[1].shape();
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Deformation d, DeformationOf(c.attrs, x, w));
  const Window& window = d.conv.window;
  const int64_t places = Volume(window.out), kernel = Volume(window.kernel);
  const bool has_bias = c.inputs.size() > 3 && c.inputs[3].has_data();
  const bool has_mask = c.inputs.size() > 4 && c.inputs[4].has_data();
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* weights = c.inputs[1].data<T>().data();
    T* to = c.outputs[0].mutable_data<T>().data();
    for (int64_t n = 0; n < x[0]; ++n) {
      const Image<T> image{
          c.inputs[0].data<T>().data() + n * x[1] * Volume(window.in),
          c.inputs[2].data<T>().data() + n * 2 * d.groups * kernel * places,
          has_mask ? c.inputs[4].data<T>().data() + n * d.groups * kernel * places : nullptr,
          window, places};
      for (int64_t m = 0; m < w[0]; ++m) {
        const int64_t first = m / d.conv.out_channels * d.conv.in_channels;
        for (int64_t place = 0; place < places; ++place) {
          double sum = has_bias ? static_cast<double>(c.inputs[3].data<T>()[m]) : 0;
          const T* weight = weights + m * d.conv.in_channels * kernel;
          for (int64_t channel = first; channel < first + d.conv.in_channels; ++channel) {
            for (int64_t k = 0; k < kernel; ++k) {
              sum += static_cast<double>(*weight++) * image.Sample(channel, channel / d.channels,
                                                                   place, k / window.kernel[2],
                                                                   k % window.kernel[2]);
            }
          }
          *to++ = Narrow<T>(sum);
        }
      }
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  if (Divisible(query.inputs[0]->shape, 0)) {
    ShardingRule rule = ReplicateAll(query, "split batch");
    for (size_t i : {0, 2, 4}) {
      if (i < rule.inputs.size() && query.inputs[i].has_value()) rule.inputs[i] = ShardDim(0);
    }
    rule.outputs[0] = ShardDim(0);
    rules.push_back(std::move(rule));
  }
  if (query.attrs.Int("group", 1) == 1 && Divisible(query.inputs[1]->shape, 0)) {
    ShardingRule rule = ReplicateAll(query, "split output channels");
    rule.inputs[1] = ShardDim(0);
    if (query.inputs.size() > 3 && query.inputs[3].has_value()) rule.inputs[3] = ShardDim(0);
    rule.outputs[0] = ShardDim(1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

// A multiply-add for the product, and four to read between elements.
Work DeformWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = 10 * MultiplyAdds(query.outputs[0]->shape, query.inputs[1]->shape);
  return work;
}

}  // namespace

OpDef DeformConvOp() {
  const auto operand = [](std::string name, bool optional, std::string doc) {
    return OperandSpec{.name = std::move(name),
                       .dtypes = FloatTypes(),
                       .optional = optional,
                       .same_as = "T",
                       .doc = std::move(doc)};
  };
  OpDef op{.name = "DeformConv",
           .doc = "Conv whose taps are moved by offsets and weighted by a mask",
           .tier = 2,
           .inputs = {operand("X", false, "[N,C,H,W]"), operand("W", false, "[M,C/group,kH,kW]"),
                      operand("offset", false, "[N,groups*kH*kW*2,...]: rows, then columns"),
                      operand("B", true, "[M]"), operand("mask", true, "[N,groups*kH*kW,...]")},
           .outputs = {{.name = "Y", .same_as = "T"}},
           .infer = Infer,
           .reference = Reference,
           .sharding = Rules,
           .work = DeformWork};
  const auto number = [](std::string name, std::string doc) {
    return AttrSpec{.name = std::move(name),
                    .kind = AttrKind::kInt,
                    .default_value = int64_t{1},
                    .doc = std::move(doc)};
  };
  op.attrs = {number("group", "as Conv's"),
              {.name = "kernel_shape", .kind = AttrKind::kInts, .doc = "absent: W's"},
              number("offset_group", "groups of channels with offsets of their own")};
  for (AttrSpec& attr : WindowAttrs()) {
    if (attr.name != "auto_pad") op.attrs.push_back(std::move(attr));
  }
  return op;
}

}  // namespace millrace
