// Col2Im puts blocks back where a sliding window took them from, adding up where they overlap. The
// window is Conv's (ops/window.h), of which the column dim lists all places.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/convolution.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::StatusOr<Window> WindowOf(const Attrs& attrs, std::span<const int64_t> image,
                                std::span<const int64_t> block) {
  if (image.empty() || image.size() > kMaxSpatial) {
    return BadInputError(StrCat("'image_shape' has ", image.size(), " dims, 1 to 3 are possible"));
  }
  for (int64_t d : image) {
    if (d < 0 || d > kMaxBytes) return BadInputError(StrCat("'image_shape' has ", d));
  }
  return MakeWindow(attrs, image, block);
}

absl::Status Infer(InferContext& c) {
  const Shape& x = c.input(0).shape;
  if (x.rank() != 3)
    return BadInputError(StrCat("the input must be [N,C*block,L], not ", ToString(x)));
  MILLRACE_ASSIGN_OR_RETURN(const auto image, ConstantInts(c, 1, "image_shape", kMaxSpatial));
  MILLRACE_ASSIGN_OR_RETURN(const auto block, ConstantInts(c, 2, "block_shape", kMaxSpatial));
  MILLRACE_ASSIGN_OR_RETURN(const Window window, WindowOf(c.attrs(), image, block));
  const std::optional<int64_t> places =
      CheckedNumElements(Shape{window.out[0], window.out[1], window.out[2]});
  const std::optional<int64_t> taps =
      CheckedNumElements(Shape{window.kernel[0], window.kernel[1], window.kernel[2]});
  if (!places.has_value() || x[2] != *places) {
    return BadInputError(StrCat("the window has ", places.value_or(-1),
                                " places, but the input has ", x[2], " columns"));
  }
  if (!taps.has_value() || x[1] % *taps != 0) {
    return BadInputError(
        StrCat(x[1], " rows are no whole number of blocks of ", taps.value_or(-1)));
  }
  Shape shape{x[0], x[1] / *taps};
  for (int64_t d : image) shape.push_back(d);
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  Tensor& out = c.outputs[0];
  if (out.num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Window window,
                            WindowOf(c.attrs, IntsOf(c.inputs[1]), IntsOf(c.inputs[2])));
  const int64_t taps = Volume(window.kernel), places = Volume(window.out), in = Volume(window.in);
  const int64_t images = out.shape()[0] * out.shape()[1];
  return VisitNumeric(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    std::vector<SumType<T>> sums(out.num_elements());
    for (int64_t i = 0; i < images; ++i) {
      ForEachTap(window, [&](int64_t place, int64_t at, int64_t tap) {
        sums[i * in + at] += static_cast<SumType<T>>(x[(i * taps + tap) * places + place]);
      });
    }
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(sums[i]);
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  if (Divisible(query.inputs[0]->shape, 0)) {
    ShardingRule rule = ReplicateAll(query, "split batch");
    rule.inputs[0] = rule.outputs[0] = ShardDim(0);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

Work Col2ImWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

}  // namespace

OpDef Col2ImOp() {
  OpDef op{.name = "Col2Im",
           .doc = "Columns of blocks added up to the image that a sliding window took them from",
           .tier = 2,
           .inputs = {{.name = "input", .dtypes = NumericTypes(), .same_as = "T"},
                      {.name = "image_shape", .dtypes = {DType::kI64}},
                      {.name = "block_shape", .dtypes = {DType::kI64}}},
           .outputs = {{.name = "output", .same_as = "T"}},
           .traits = {.host_inputs = {1, 2}},
           .infer = Infer,
           .reference = Reference,
           .sharding = Rules,
           .work = Col2ImWork};
  for (AttrSpec& attr : WindowAttrs()) {
    if (attr.name != "auto_pad") op.attrs.push_back(std::move(attr));
  }
  return op;
}

}  // namespace millrace
