// Sums and means over axes: ReduceSum (axes are an operand), ReduceMean (axes are an attribute),
// and GlobalAveragePool, the mean over all spatial dims.
#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/index_walk.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

std::vector<int64_t> AllDims(int rank, int first = 0) {
  std::vector<int64_t> dims;
  for (int d = first; d < rank; ++d) dims.push_back(d);
  return dims;
}

bool Contains(const std::vector<int>& axes, int d) {
  return std::find(axes.begin(), axes.end(), d) != axes.end();
}

// `from` with `axes` gone, or kept as dims of 1.
Shape ReducedShape(const Shape& from, const std::vector<int>& axes, bool keep) {
  Shape shape;
  for (int d = 0; d < from.rank(); ++d) {
    if (!Contains(axes, d)) {
      shape.push_back(from[d]);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

// --- The axes of each op -----------------------------------------------------------------------

// ReduceSum: no axes means all dims, or none with noop_with_empty_axes.
std::vector<int64_t> SumAxes(std::vector<int64_t> axes, const Attrs& attrs, int rank) {
  return axes.empty() && !attrs.Bool("noop_with_empty_axes", false) ? AllDims(rank) : axes;
}

std::vector<int64_t> MeanAxes(const Attrs& attrs, int rank) {
  std::vector<int64_t> axes = attrs.Ints("axes");
  return axes.empty() ? AllDims(rank) : axes;
}

// --- Inference ---------------------------------------------------------------------------------

absl::Status InferReduced(InferContext& c, std::span<const int64_t> axes, bool keep) {
  const Shape& from = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> normal, NormalizeAxes(axes, from.rank()));
  c.set_output(0, {c.input(0).dtype, ReducedShape(from, normal, keep)});
  return absl::OkStatus();
}

absl::Status InferSum(InferContext& c) {
  std::vector<int64_t> axes;
  if (c.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(axes, ConstantInts(c, 1, "axes", kMaxRank));
  }
  return InferReduced(c, SumAxes(axes, c.attrs(), c.input(0).shape.rank()),
                      c.attrs().Bool("keepdims", true));
}

absl::Status InferMean(InferContext& c) {
  return InferReduced(c, MeanAxes(c.attrs(), c.input(0).shape.rank()),
                      c.attrs().Bool("keepdims", true));
}

absl::Status InferPool(InferContext& c) {
  const int rank = c.input(0).shape.rank();
  if (rank < 3) return BadInputError(StrCat("X must be [N,C,spatial...], but has rank ", rank));
  return InferReduced(c, AllDims(rank, 2), true);
}

// --- Reference ---------------------------------------------------------------------------------

// Sums over `axes`, divided by how many there are where `mean`; no elements sum to 0, and their
// mean is NaN.
absl::Status Reduce(const Tensor& x, std::span<const int64_t> axes, bool mean, Tensor& out) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> normal, NormalizeAxes(axes, x.shape().rank()));
  const Shape kept = DenseStrides(ReducedShape(x.shape(), normal, true));
  Shape out_strides;
  double count = 1;
  for (int d = 0; d < x.shape().rank(); ++d) {
    out_strides.push_back(Contains(normal, d) ? 0 : kept[d]);
    if (Contains(normal, d)) count *= static_cast<double>(x.shape()[d]);
  }
  return VisitNumeric(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>().data();
    std::vector<SumType<T>> sums(out.num_elements());
    WalkIndices<2>(x.shape(), {DenseStrides(x.shape()), out_strides},
                   [&](const std::array<int64_t, 2>& at) {
                     sums[at[1]] += static_cast<SumType<T>>(from[at[0]]);
                   });
    const std::span<T> to = out.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (kIsFloating<T>) {
        to[i] = Narrow<T>(mean ? sums[i] / count : sums[i]);
      } else {
        to[i] = Narrow<T>(sums[i]);
      }
    }
    return absl::OkStatus();
  });
}

absl::Status SumReference(const ReferenceContext& c) {
  std::vector<int64_t> axes;
  if (c.inputs.size() > 1 && c.inputs[1].has_data()) axes = IntsOf(c.inputs[1]);
  axes = SumAxes(axes, c.attrs, c.inputs[0].shape().rank());
  return Reduce(c.inputs[0], axes, /*mean=*/false, c.outputs[0]);
}

absl::Status MeanReference(const ReferenceContext& c) {
  return Reduce(c.inputs[0], MeanAxes(c.attrs, c.inputs[0].shape().rank()), /*mean=*/true,
                c.outputs[0]);
}

absl::Status PoolReference(const ReferenceContext& c) {
  return Reduce(c.inputs[0], AllDims(c.inputs[0].shape().rank(), 2), /*mean=*/true, c.outputs[0]);
}

// --- Gradient ----------------------------------------------------------------------------------

// Spreads the result's gradient, scaled, over what was summed.
void Spread(Forward& f, std::span<const int64_t> axes, bool mean) {
  if (!f.wants(0)) return;
  const Shape& from = f.input_type(0).shape;
  const std::vector<int> normal = *NormalizeAxes(axes, from.rank());  // inference checked them
  Term dy = f.output_grad(0);
  const Shape kept = ReducedShape(from, normal, true);
  if (kept != f.output_type(0).shape) dy = Reshape(dy, kept);
  if (mean) {
    double count = 1;
    for (int d : normal) count *= static_cast<double>(from[d]);
    if (count > 0) dy = dy * (1 / count);
  }
  f.set_grad(0, kept == from ? dy : Apply("Expand", {dy, Ints(*dy.builder, from.dims())}));
}

absl::Status SumGradient(GradientContext& c) {
  Forward f(c);
  std::vector<int64_t> axes;
  if (f.has_input(1)) {
    const std::optional<Tensor> constant = ConstantTensor(c.builder.graph(), f.input(1).id);
    MILLRACE_CHECK(constant.has_value());  // inference asked for it
    axes = IntsOf(*constant);
  }
  Spread(f, SumAxes(axes, f.attrs(), f.input_type(0).shape.rank()), /*mean=*/false);
  return absl::OkStatus();
}

absl::Status MeanGradient(GradientContext& c) {
  Forward f(c);
  Spread(f, MeanAxes(f.attrs(), f.input_type(0).shape.rank()), /*mean=*/true);
  return absl::OkStatus();
}

absl::Status PoolGradient(GradientContext& c) {
  Forward f(c);
  Spread(f, AllDims(f.input_type(0).shape.rank(), 2), /*mean=*/true);
  return absl::OkStatus();
}

// --- Work and sharding -------------------------------------------------------------------------

Work ReduceWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));  // an addition each
  return work;
}

// For each dim of the input with at least two elements, the dim of the result it became, -1 where
// it was summed. A query has no operand data, so this is read off the shapes; nullopt where they
// leave it open ([4,4] -> [4]).
std::optional<std::vector<int>> ResultDims(const Shape& in, const Shape& out) {
  std::vector<int> first(in.rank(), -1), last(in.rank(), -1);
  if (in.rank() == out.rank()) {
    for (int d = 0; d < in.rank(); ++d) first[d] = in[d] == out[d] ? d : -1;
    return first;
  }
  int j = 0;  // the result's dims are some of the input's, in order: matched from both ends
  for (int d = 0; d < in.rank() && j < out.rank(); ++d) {
    if (in[d] == out[j]) first[d] = j++;
  }
  j = out.rank() - 1;
  for (int d = in.rank() - 1; d >= 0 && j >= 0; --d) {
    if (in[d] == out[j]) last[d] = j--;
  }
  for (int d = 0; d < in.rank(); ++d) {
    if (first[d] != last[d] && in[d] > 1) return std::nullopt;
  }
  return first;
}

std::vector<ShardingRule> ReduceRules(const NodeQuery& query, Reduction reduction) {
  std::vector<ShardingRule> rules;
  const Shape& in = query.inputs[0]->shape;
  const std::optional<std::vector<int>> to = ResultDims(in, query.outputs[0]->shape);
  for (int d = 0; to.has_value() && d < in.rank(); ++d) {
    if (!Divisible(in, d)) continue;
    const bool summed = (*to)[d] < 0;
    ShardingRule rule =
        ReplicateAll(query, StrCat(summed ? "split reduced dim " : "split dim ", d));
    rule.inputs[0] = ShardDim(d);
    rule.outputs[0] = summed ? Partial(reduction) : ShardDim((*to)[d]);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

std::vector<ShardingRule> SumRules(const NodeQuery& query) {
  return ReduceRules(query, Reduction::kSum);
}
std::vector<ShardingRule> MeanRules(const NodeQuery& query) {
  return ReduceRules(query, Reduction::kMean);
}

AttrSpec KeepDims() {
  return {.name = "keepdims",
          .kind = AttrKind::kBool,
          .default_value = true,
          .doc = "reduced dims stay, with size 1"};
}

OpDef Mean(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .fusion = FusionClass::kReduction,
          .infer = nullptr,
          .sharding = MeanRules,
          .work = ReduceWork};
}

}  // namespace

OpDef ReduceSumOp() {
  return {.name = "ReduceSum",
          .doc = "Sums over axes",
          .inputs = {{.name = "data", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "axes",
                      .dtypes = {DType::kI64},
                      .optional = true,
                      .doc = "the dims to sum over; absent or empty: all of them"}},
          .outputs = {{.name = "reduced", .same_as = "T"}},
          .attrs = {KeepDims(),
                    {.name = "noop_with_empty_axes",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "absent or empty axes: none of them"}},
          .traits = {.host_inputs = {1}},
          .fusion = FusionClass::kReduction,
          .infer = InferSum,
          .reference = SumReference,
          .gradient = SumGradient,
          .sharding = SumRules,
          .work = ReduceWork};
}

OpDef ReduceMeanOp() {
  OpDef op = Mean("ReduceMean", "Means over axes");
  op.inputs = {{.name = "data", .dtypes = FloatTypes(), .same_as = "T"}};
  op.outputs = {{.name = "reduced", .same_as = "T"}};
  op.attrs = {{.name = "axes",
               .kind = AttrKind::kInts,
               .doc = "the dims to average over; absent or empty: all of them"},
              KeepDims()};
  op.infer = InferMean;
  op.reference = MeanReference;
  op.gradient = MeanGradient;
  return op;
}

OpDef GlobalAveragePoolOp() {
  OpDef op = Mean("GlobalAveragePool", "The mean of each channel");
  op.inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"}};
  op.outputs = {{.name = "Y", .same_as = "T", .doc = "[N,C,1...]"}};
  op.infer = InferPool;
  op.reference = PoolReference;
  op.gradient = PoolGradient;
  return op;
}

}  // namespace millrace
