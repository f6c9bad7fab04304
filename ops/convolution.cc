#include "ops/convolution.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

std::span<const int64_t> SpatialOf(const Shape& shape) { return shape.dims().subspan(2); }

absl::Status CheckKernelShape(const Attrs& attrs, const Shape& w) {
  if (attrs.Find("kernel_shape") == nullptr) return absl::OkStatus();
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  if (std::equal(kernel.begin(), kernel.end(), SpatialOf(w).begin(), SpatialOf(w).end())) {
    return absl::OkStatus();
  }
  return BadInputError(StrCat("'kernel_shape' differs from the spatial dims of W, ", ToString(w)));
}

}  // namespace

absl::Status CheckConvRank(const Shape& shape, std::string_view name) {
  if (shape.rank() >= 3 && shape.rank() <= 2 + kMaxSpatial) return absl::OkStatus();
  return BadInputError(StrCat("'", name,
                              "' must have 1 to 3 spatial dims, that is rank 3 to 5, but ",
                              "has rank ", shape.rank()));
}

absl::StatusOr<Convolution> ConvolutionOf(const Attrs& attrs, const Shape& x, const Shape& w) {
  MILLRACE_RETURN_IF_ERROR(CheckConvRank(x, "X"));
  if (w.rank() != x.rank()) {
    return BadInputError(StrCat("X has rank ", x.rank(), ", W has rank ", w.rank()));
  }
  Convolution conv;
  conv.batch = x[0];
  conv.group = attrs.Int("group", 1);
  if (conv.group < 1) return BadInputError(StrCat("'group' is ", conv.group));
  if (w[0] % conv.group != 0) {
    return BadInputError(StrCat(w[0], " output channels do not divide in ", conv.group, " groups"));
  }
  if (x[1] % conv.group != 0 || x[1] / conv.group != w[1]) {
    return BadInputError(StrCat("X has ", x[1], " channels, W takes ", w[1], " in each of ",
                                conv.group, conv.group == 1 ? " group" : " groups"));
  }
  conv.in_channels = w[1];
  conv.out_channels = w[0] / conv.group;
  MILLRACE_RETURN_IF_ERROR(CheckKernelShape(attrs, w));
  MILLRACE_ASSIGN_OR_RETURN(conv.window, MakeWindow(attrs, SpatialOf(x), SpatialOf(w)));
  return conv;
}

absl::StatusOr<Convolution> TransposedConvolutionOf(const Attrs& attrs, const Shape& x,
                                                    const Shape& w) {
  MILLRACE_RETURN_IF_ERROR(CheckConvRank(x, "X"));
  if (w.rank() != x.rank()) {
    return BadInputError(StrCat("X has rank ", x.rank(), ", W has rank ", w.rank()));
  }
  Convolution conv;
  conv.batch = x[0];
  conv.group = attrs.Int("group", 1);
  if (conv.group < 1) return BadInputError(StrCat("'group' is ", conv.group));
  if (x[1] != w[0]) return BadInputError(StrCat("X has ", x[1], " channels, W takes ", w[0]));
  if (x[1] % conv.group != 0) {
    return BadInputError(StrCat(x[1], " channels do not divide in ", conv.group, " groups"));
  }
  if (conv.group > kMaxBytes / std::max<int64_t>(1, w[1])) {
    return BadInputError(StrCat("'group' is ", conv.group));
  }
  conv.in_channels = w[1];
  conv.out_channels = w[0] / conv.group;
  MILLRACE_RETURN_IF_ERROR(CheckKernelShape(attrs, w));
  MILLRACE_ASSIGN_OR_RETURN(conv.window, MakeTransposedWindow(attrs, SpatialOf(x), SpatialOf(w)));
  return conv;
}

Shape OperandShape(const Convolution& conv) {
  return WithSpatial(conv.batch, conv.group * conv.in_channels, Dims(conv.window, conv.window.in));
}

Shape ResultShape(const Convolution& conv) {
  return WithSpatial(conv.batch, conv.group * conv.out_channels,
                     Dims(conv.window, conv.window.out));
}

std::vector<AttrSpec> ConvAttrs(AttrSpec shape) {
  std::vector<AttrSpec> attrs = WindowAttrs();
  attrs.push_back({.name = "group",
                   .kind = AttrKind::kInt,
                   .default_value = int64_t{1},
                   .doc = "channels are cut in so many independent groups"});
  attrs.push_back(std::move(shape));
  return attrs;
}

double MultiplyAdds(const Shape& y, const Shape& w) {
  double count = static_cast<double>(NumElements(y));
  for (int64_t d : w.dims().subspan(1)) count *= static_cast<double>(d);
  return count;
}

// With groups, the number of groups would have to be cut as well, so channels then stay whole.
std::vector<ConvCut> ConvCuts(const Shape& x, const Shape& w, const Attrs& attrs) {
  std::vector<ConvCut> cuts;
  if (Divisible(x, 0)) cuts.push_back({"split the batch", ShardDim(0), Replicate(), ShardDim(0)});
  if (attrs.Int("group", 1) != 1) return cuts;
  if (Divisible(w, 0)) {
    cuts.push_back({"split output channels", Replicate(), ShardDim(0), ShardDim(1)});
  }
  if (Divisible(w, 1)) {
    cuts.push_back({"split input channels", ShardDim(1), ShardDim(1), Replicate()});
  }
  return cuts;
}

std::vector<ShardingRule> ConvRules(const NodeQuery& query, std::span<const ConvCut> cuts) {
  std::vector<ShardingRule> rules;
  const bool has_bias = query.inputs.size() > 2 && query.inputs[2].has_value();
  const AxisSharding sum = Partial(Reduction::kSum), mean = Partial(Reduction::kMean);
  const auto add = [&](std::string_view note, AxisSharding x, AxisSharding w, AxisSharding b,
                       AxisSharding y) {
    ShardingRule rule = ReplicateAll(query, note);
    rule.inputs[0] = x;
    rule.inputs[1] = w;
    if (has_bias) rule.inputs[2] = b;
    rule.outputs[0] = y;
    rules.push_back(std::move(rule));
  };
  for (const ConvCut& cut : cuts) {
    // B goes with the result's channels; it counts once in a sum of the devices' results.
    const AxisSharding b = !IsShard(cut.y) ? sum : cut.y.dim == 1 ? ShardDim(0) : Replicate();
    add(cut.note, cut.x, cut.w, b, ResultOf(cut.y));
  }
  add("pass partial sum of X through", sum, Replicate(), sum, sum);
  add("pass partial sum of W through", Replicate(), sum, sum, sum);
  add("pass partial mean of X through", mean, Replicate(), Replicate(), mean);
  add("pass partial mean of W through", Replicate(), mean, Replicate(), mean);
  return rules;
}

AxisSharding ResultOf(const AxisSharding& named) {
  return IsShard(named) ? named : Partial(Reduction::kSum);
}

Attrs GeometryAttrs(const Convolution& conv) {
  const Window& w = conv.window;
  std::vector<int64_t> pads = Dims(w, w.pads_begin);
  for (int64_t p : Dims(w, w.pads_end)) pads.push_back(p);
  Attrs attrs;
  attrs.Set("strides", Dims(w, w.strides));
  attrs.Set("dilations", Dims(w, w.dilations));
  attrs.Set("pads", std::move(pads));
  attrs.Set("group", conv.group);
  return attrs;
}

Term ConvInputGrad(const Convolution& conv, const Term& dy, const Term& w) {
  Attrs attrs = GeometryAttrs(conv);
  attrs.Set("input_shape", Dims(conv.window, conv.window.in));
  return Apply("grad.ConvInput", {dy, w}, std::move(attrs));
}

Term ConvWeightGrad(const Convolution& conv, const Term& x, const Term& dy) {
  Attrs attrs = GeometryAttrs(conv);
  attrs.Set("kernel_shape", Dims(conv.window, conv.window.kernel));
  return Apply("grad.ConvWeight", {x, dy}, std::move(attrs));
}

}  // namespace millrace
