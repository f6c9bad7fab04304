// ArgMax and ArgMin: where along an axis the largest or smallest element is.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/ordering.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape& from = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis", 0), from.rank()));
  if (from[axis] == 0) {
    return BadInputError(StrCat("axis ", axis, " is empty, it has no largest nor smallest"));
  }
  Shape shape(from.dims().first(axis));
  if (c.attrs().Bool("keepdims", true)) shape.push_back(1);
  for (int64_t d : from.dims().subspan(axis + 1)) shape.push_back(d);
  c.set_output(0, {DType::kI64, shape});
  return absl::OkStatus();
}

template <auto kGoesFirst>
absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", 0), x.shape().rank()));
  const AxisView view = ViewAround(x.shape(), axis);
  const bool last = c.attrs.Bool("select_last_index", false);
  int64_t* to = c.outputs[0].mutable_data<int64_t>().data();
  return VisitNumeric(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = x.data<T>().data();
    for (int64_t row = 0; row < view.outer * view.inner; ++row) {
      const T* from = data + row / view.inner * view.size * view.inner + row % view.inner;
      int64_t best = 0;
      for (int64_t i = 1; i < view.size; ++i) {
        const auto candidate = static_cast<NativeType<T>>(from[i * view.inner]);
        const auto champion = static_cast<NativeType<T>>(from[best * view.inner]);
        if (last ? !kGoesFirst(champion, candidate) : kGoesFirst(candidate, champion)) best = i;
      }
      to[row] = best;
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), shape.rank());
  const bool kept = query.outputs[0]->shape.rank() == shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    if (!axis.ok() || d == *axis || !Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = ShardDim(d);
    rule.outputs[0] = ShardDim(kept || d < *axis ? d : d - 1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

// A comparison for each element.
Work ExtremumWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

template <auto kGoesFirst>
OpDef Extremum(std::string name, std::string_view which) {
  return {.name = std::move(name),
          .doc = StrCat("The position of the ", which,
                        " element along an axis; the first one of equals"),
          .inputs = {{.name = "data", .dtypes = NumericTypes()}},
          .outputs = {{.name = "reduced", .dtypes = {DType::kI64}}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{0}},
                    {.name = "keepdims",
                     .kind = AttrKind::kBool,
                     .default_value = true,
                     .doc = "the axis stays, with size 1"},
                    {.name = "select_last_index",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "the last one of equals"}},
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference<kGoesFirst>,
          .gradient = ZeroGradient,
          .sharding = Rules,
          .work = ExtremumWork};
}

}  // namespace

OpDef ArgMaxOp() { return Extremum<kLargerFirst>("ArgMax", "largest"); }
OpDef ArgMinOp() { return Extremum<kSmallerFirst>("ArgMin", "smallest"); }

}  // namespace millrace
