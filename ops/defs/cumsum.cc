// CumSum: along an axis, the sum of all elements so far; with `exclusive` without the element
// itself, with `reverse` from the end.
#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dim_maps.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  if (NumElements(c.input(1).shape) != 1) {
    return BadInputError(
        StrCat("'axis' must have one element, but is ", ToString(c.input(1).shape)));
  }
  if (const std::optional<Tensor> axis = c.constant(1); axis.has_value()) {
    MILLRACE_RETURN_IF_ERROR(NormalizeAxis(axis->AsInt64(0), c.input(0).shape.rank()).status());
  }
  return InferLikeInput(c);
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.inputs[1].AsInt64(0), x.shape().rank()));
  const AxisView view = ViewAround(x.shape(), axis);
  const bool exclusive = c.attrs.Bool("exclusive", false);
  const bool reverse = c.attrs.Bool("reverse", false);
  return VisitNumeric(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>().data();
    T* to = c.outputs[0].mutable_data<T>().data();
    for (int64_t row = 0; row < view.outer * view.inner; ++row) {
      const int64_t start = row / view.inner * view.size * view.inner + row % view.inner;
      SumType<T> sum = 0;
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = start + (reverse ? view.size - 1 - i : i) * view.inner;
        const auto element = static_cast<SumType<T>>(from[at]);
        to[at] = Narrow<T>(exclusive ? sum : sum + element);
        sum += element;
      }
    }
    return absl::OkStatus();
  });
}

// An element is part of all sums from its own on: the same sums, from the other end.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  Attrs attrs;
  attrs.Set("exclusive", f.attrs().Bool("exclusive", false));
  attrs.Set("reverse", !f.attrs().Bool("reverse", false));
  f.set_grad(0, Apply("CumSum", {f.output_grad(0), f.input(1)}, std::move(attrs)));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const int rank = query.inputs[0]->shape.rank();
  const auto known = query.known.find(1);
  std::vector<bool> kept(rank, known != query.known.end());
  if (known != query.known.end() && known->second.size() == 1) {
    const absl::StatusOr<int> axis = NormalizeAxis(known->second[0], rank);
    if (axis.ok()) kept[*axis] = false;
  }
  std::vector<ShardingRule> rules = KeptDimRules(query, kept);
  std::erase_if(rules, [](const ShardingRule& rule) {  // sums commute with sums only
    const AxisSharding& input = rule.inputs[0];
    return input.kind == AxisSharding::Kind::kPartial && input.reduction != Reduction::kSum &&
           input.reduction != Reduction::kMean;
  });
  return rules;
}

// An addition for each element.
Work SumWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

}  // namespace

OpDef CumSumOp() {
  return {.name = "CumSum",
          .doc = "Sums of all elements so far along an axis",
          .inputs = {{.name = "x", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "axis", .dtypes = IndexTypes(), .doc = "one element"}},
          .outputs = {{.name = "y", .same_as = "T"}},
          .attrs = {{.name = "exclusive",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "without the element itself"},
                    {.name = "reverse",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "from the end"}},
          .traits = {.in_place = {{0, 0}}, .host_inputs = {1}},
          .fusion = FusionClass::kNone,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = SumWork};
}

}  // namespace millrace
