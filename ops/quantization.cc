#include "ops/quantization.h"

#include "graph/strings.h"
#include "ops/broadcast.h"
#include "ops/index_walk.h"
#include "ops/reference_dispatch.h"

namespace millrace {

Shape ParamShape(const Shape& param, int after) {
  if (NumElements(param) == 1) return {};
  Shape shape = param;
  for (int d = 0; param.rank() == 1 && d < after; ++d) shape.push_back(1);
  return shape;
}

QuantizationParam ParamOf(const ReferenceContext& c, size_t input, int after) {
  if (input >= c.inputs.size() || !c.inputs[input].has_data()) return {};
  return {&c.inputs[input], ParamShape(c.inputs[input].shape(), after)};
}

absl::Status CheckParam(const InferContext& c, int i, std::string_view name, int after,
                        const Shape& to) {
  if (!c.has_input(i)) return absl::OkStatus();
  const Shape& shape = c.input(i).shape;
  if (shape.rank() + after <= kMaxRank) {
    const auto together = BroadcastShapes(ParamShape(shape, after), to);
    if (together.ok() && *together == to) return absl::OkStatus();
  }
  return BadInputError(StrCat("'", name, "' of ", ToString(shape), " does not fit ", ToString(to)));
}

std::vector<int64_t> Centered(const Tensor& x, const QuantizationParam& zero) {
  std::vector<int64_t> values;
  values.reserve(x.num_elements());
  WalkIndices<2>(x.shape(), {DenseStrides(x.shape()), BroadcastStrides(zero.shape, x.shape())},
                 [&](const std::array<int64_t, 2>& at) {
                   const int64_t less = zero.tensor == nullptr ? 0 : zero.tensor->AsInt64(at[1]);
                   values.push_back(x.AsInt64(at[0]) - less);
                 });
  return values;
}

absl::Status StoreQuantized(const std::vector<int64_t>& sums, const Requantization& q, Tensor& y) {
  const Shape& space = y.shape();
  const auto strides = [&](const QuantizationParam& p) { return BroadcastStrides(p.shape, space); };
  const auto value = [](const QuantizationParam& p, int64_t at, double otherwise) {
    return p.tensor == nullptr ? otherwise : p.tensor->AsDouble(at);
  };
  return VisitIntegers(y.dtype(), [&](auto tag) {
    using Q = typename decltype(tag)::type;
    const std::span<Q> to = y.mutable_data<Q>();
    WalkIndices<5>(
        space, {DenseStrides(space), strides(q.a), strides(q.b), strides(q.scale), strides(q.zero)},
        [&](const std::array<int64_t, 5>& at) {
          const double factor =
              value(q.a, at[1], 1) * value(q.b, at[2], 1) / value(q.scale, at[3], 1);
          const double x = RoundHalfEven(static_cast<double>(sums[at[0]]) * factor);
          to[at[0]] = Saturate<Q>(x + value(q.zero, at[4], 0));
        });
    return absl::OkStatus();
  });
}

}  // namespace millrace
