// TopK: the k largest (or smallest) elements along an axis, in order, and where they are; of equals
// the ones that come first. They come sorted, whether `sorted` asks for it or not.
#include <algorithm>
#include <numeric>

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
  const TensorType& x = c.input(0);
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs().Int("axis", -1), x.shape.rank()));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> list, ConstantInts(c, 1, "K", 1));
  if (list.size() != 1 || list[0] < 0 || list[0] > x.shape[axis]) {
    return BadInputError(StrCat("'K' must be one number in [0,", x.shape[axis],
                                "], the size of axis ", axis,
                                list.size() == 1 ? StrCat(", not ", list[0]) : ""));
  }
  Shape shape = x.shape;
  shape[axis] = list[0];
  c.set_output(0, {x.dtype, shape});
  c.set_output(1, {DType::kI64, shape});
  return absl::OkStatus();
}

// Positions of the first k of `size` elements, `inner` apart.
template <auto kGoesFirst, typename T>
void FirstPositions(const T* x, int64_t inner, std::span<int64_t> order, int64_t k) {
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
    const auto first = static_cast<NativeType<T>>(x[a * inner]);
    const auto second = static_cast<NativeType<T>>(x[b * inner]);
    if (kGoesFirst(first, second)) return true;
    return !kGoesFirst(second, first) && a < b;
  });
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& x = c.inputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", -1), x.shape().rank()));
  const AxisView view = ViewAround(x.shape(), axis);
  const int64_t k = c.inputs[1].AsInt64(0);
  if (k == 0 || view.outer * view.inner == 0) return absl::OkStatus();  // no rows, however long
  const bool largest = c.attrs.Bool("largest", true);
  const auto wanted = [&](size_t i) { return i < c.outputs.size() && c.outputs[i].has_data(); };
  return VisitNumeric(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<int64_t> order(view.size);
    for (int64_t row = 0; row < view.outer * view.inner; ++row) {
      const int64_t outer = row / view.inner, inner = row % view.inner;
      const T* from = x.data<T>().data() + outer * view.size * view.inner + inner;
      if (largest) {
        FirstPositions<kLargerFirst>(from, view.inner, order, k);
      } else {
        FirstPositions<kSmallerFirst>(from, view.inner, order, k);
      }
      for (int64_t i = 0; i < k; ++i) {
        const int64_t to = (outer * k + i) * view.inner + inner;
        if (wanted(0)) c.outputs[0].template mutable_data<T>()[to] = from[order[i] * view.inner];
        if (wanted(1)) c.outputs[1].template mutable_data<int64_t>()[to] = order[i];
      }
    }
    return absl::OkStatus();
  });
}

// Each value's gradient goes back to where it was.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0) || !f.has_output_grad(0)) return absl::OkStatus();
  Term indices;
  if (f.has_output(1)) {
    indices = f.output(1);
  } else {
    const Node& again = c.builder.AddNode("TopK", {f.input(0).id, f.input(1).id}, f.attrs(), "", 2);
    indices = {&c.builder, again.outputs[1], DType::kI64};
  }
  const Term zeros = Zeros(c.builder, f.input_type(0));
  f.set_grad(0, Apply("ScatterElements", {zeros, indices, f.output_grad(0)},
                      AxisAttr(f.attrs().Int("axis", -1))));
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", -1), shape.rank());
  for (int d = 0; axis.ok() && d < shape.rank(); ++d) {
    if (d == *axis || !Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = ShardDim(d);
    for (AxisSharding& output : rule.outputs) output = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Comparisons: each element against a heap of k.
Work SelectWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& shape = query.inputs[0]->shape;
  const int64_t k = query.outputs[0].has_value() ? NumElements(query.outputs[0]->shape)
                                                 : NumElements(query.outputs[1]->shape);
  const auto count = static_cast<double>(NumElements(shape));
  work.flops = count * std::log2(2 + static_cast<double>(k));
  return work;
}

}  // namespace

OpDef TopKOp() {
  return {.name = "TopK",
          .doc = "The K largest or smallest elements along an axis, and where they are",
          .inputs = {{.name = "X", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "K", .dtypes = {DType::kI64}, .doc = "[1]"}},
          .outputs = {{.name = "Values", .same_as = "T"},
                      {.name = "Indices", .dtypes = {DType::kI64}, .optional = true}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{-1}},
                    {.name = "largest", .kind = AttrKind::kBool, .default_value = true},
                    {.name = "sorted",
                     .kind = AttrKind::kBool,
                     .default_value = true,
                     .doc = "nothing hangs on it: results are always sorted"}},
          .traits = {.host_inputs = {1}},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = SelectWork};
}

}  // namespace millrace
