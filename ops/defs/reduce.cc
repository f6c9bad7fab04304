// Reductions over axes. Each is a function of a row, the elements that become one of the result;
// its gradient is a formula. ReduceSum takes its axes as an operand, the others as an attribute;
// GlobalAveragePool is the mean over all spatial dims. Of no elements: 0 for sums, 1 for the
// product, -inf for logarithms, the lowest (highest) value for the maximum (minimum), NaN for the
// mean. Of integers, what is no integer is truncated.
#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/index_walk.h"
#include "ops/reference_dispatch.h"
#include "ops/row_functions.h"
#include "ops/scalar_program.h"
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

// An operand: none means all dims, or none with noop_with_empty_axes.
std::vector<int64_t> OperandAxes(std::vector<int64_t> axes, const Attrs& attrs, int rank) {
  return axes.empty() && !attrs.Bool("noop_with_empty_axes", false) ? AllDims(rank) : axes;
}

std::vector<int64_t> AttributeAxes(const Attrs& attrs, int rank) {
  return OperandAxes(attrs.Ints("axes"), {}, rank);
}

std::vector<int64_t> SpatialAxes(const Attrs&, int rank) { return AllDims(rank, 2); }

// --- Inference ---------------------------------------------------------------------------------

absl::Status InferReduced(InferContext& c, std::span<const int64_t> axes, bool keep) {
  const Shape& from = c.input(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> normal, NormalizeAxes(axes, from.rank()));
  c.set_output(0, {c.input(0).dtype, ReducedShape(from, normal, keep)});
  return absl::OkStatus();
}

absl::Status InferByOperand(InferContext& c) {
  std::vector<int64_t> axes;
  if (c.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(axes, ConstantInts(c, 1, "axes", kMaxRank));
  }
  return InferReduced(c, OperandAxes(axes, c.attrs(), c.input(0).shape.rank()),
                      c.attrs().Bool("keepdims", true));
}

absl::Status InferByAttribute(InferContext& c) {
  return InferReduced(c, AttributeAxes(c.attrs(), c.input(0).shape.rank()),
                      c.attrs().Bool("keepdims", true));
}

absl::Status InferPool(InferContext& c) {
  const int rank = c.input(0).shape.rank();
  if (rank < 3) return BadInputError(StrCat("X must be [N,C,spatial...], but has rank ", rank));
  return InferReduced(c, SpatialAxes({}, rank), true);
}

// --- Reference ---------------------------------------------------------------------------------

// Each element of the result is kReduce(row), a row being a vector of NativeType.
template <auto kReduce>
absl::Status Reduce(const Tensor& x, std::span<const int64_t> axes, Tensor& out) {
  const Shape& from = x.shape();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> normal, NormalizeAxes(axes, from.rank()));
  const Shape strides = DenseStrides(from);
  Shape kept, kept_strides, reduced, reduced_strides;
  for (int d = 0; d < from.rank(); ++d) {
    const bool reduces = Contains(normal, d);
    (reduces ? reduced : kept).push_back(from[d]);
    (reduces ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  return VisitNumeric(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = x.data<T>().data();
    T* to = out.mutable_data<T>().data();
    std::vector<NativeType<T>> row;
    WalkIndices<1>(kept, {kept_strides}, [&](const std::array<int64_t, 1>& start) {
      row.clear();
      WalkIndices<1>(reduced, {reduced_strides}, [&](const std::array<int64_t, 1>& at) {
        row.push_back(static_cast<NativeType<T>>(data[start[0] + at[0]]));
      });
      *to++ = ConvertTo<T>(kReduce(row));
    });
    return absl::OkStatus();
  });
}

using AxesFn = std::vector<int64_t> (*)(const Attrs& attrs, int rank);

template <auto kReduce, AxesFn kAxes = AttributeAxes>
absl::Status Reference(const ReferenceContext& c) {
  return Reduce<kReduce>(c.inputs[0], kAxes(c.attrs, c.inputs[0].shape().rank()), c.outputs[0]);
}

absl::Status SumReference(const ReferenceContext& c) {
  std::vector<int64_t> axes;
  if (c.inputs.size() > 1 && c.inputs[1].has_data()) axes = IntsOf(c.inputs[1]);
  axes = OperandAxes(axes, c.attrs, c.inputs[0].shape().rank());
  return Reduce<kSumOf>(c.inputs[0], axes, c.outputs[0]);
}

// --- Gradient ----------------------------------------------------------------------------------

// The forward node with y and dy reshaped so that they broadcast with x.
struct Reduced {
  Term x, y, dy;
  Shape shape;                // of x
  std::vector<int64_t> axes;  // in order
};

absl::Status GradientOver(GradientContext& c, std::span<const int64_t> axes,
                          Term (*formula)(const Reduced& r)) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape& from = f.input_type(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> normal, NormalizeAxes(axes, from.rank()));
  const Shape kept = ReducedShape(from, normal, true);
  const bool reshapes = kept != f.output_type(0).shape;
  f.set_grad(0, formula({.x = f.input(0),
                         .y = reshapes ? Reshape(f.output(0), kept) : f.output(0),
                         .dy = reshapes ? Reshape(f.output_grad(0), kept) : f.output_grad(0),
                         .shape = from,
                         .axes = {normal.begin(), normal.end()}}));
  return absl::OkStatus();
}

template <Term (*kFormula)(const Reduced&), AxesFn kAxes = AttributeAxes>
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  return GradientOver(c, kAxes(f.attrs(), f.input_type(0).shape.rank()), kFormula);
}

Term OfSum(const Reduced& r) { return ExpandTo(r.dy, r.shape); }

Term OfMean(const Reduced& r) {
  double count = 1;
  for (int64_t d : r.axes) count *= static_cast<double>(r.shape[static_cast<int>(d)]);
  return ExpandTo(count > 0 ? r.dy * (1 / count) : r.dy, r.shape);
}

// Equal parts for all that are equal to the result.
Term OfExtremum(const Reduced& r) {
  const Term winners = CastTo(EqualTo(r.x, r.y), r.x.dtype);
  return r.dy / Sum(winners, r.axes, /*keep=*/true) * winners;
}

Term OfProduct(const Reduced& r) {
  const Term is_zero = EqualTo(r.x, 0);
  const Term rest = Select(is_zero, Scalar(r.x, 1), r.x);
  Attrs attrs;
  attrs.Set("axes", r.axes);
  const Term product = Apply("ReduceProd", {rest}, std::move(attrs));
  const Term zeros = Sum(CastTo(is_zero, r.x.dtype), r.axes, /*keep=*/true);
  return r.dy * ProductSlope(is_zero, rest, product, zeros);
}

Term OfL1(const Reduced& r) { return r.dy * Apply("Sign", {r.x}); }
// Not differentiable where all elements are 0: 0 there.
Term OfL2(const Reduced& r) {
  const Term is_zero = EqualTo(r.y, 0);
  return Select(is_zero, Scalar(r.x, 0), r.dy / r.y) * r.x;
}
Term OfSumSquare(const Reduced& r) { return (2 * r.dy) * r.x; }
Term OfLogSum(const Reduced& r) { return ExpandTo(r.dy * Apply("Exp", {-r.y}), r.shape); }
Term OfLogSumExp(const Reduced& r) { return r.dy * Apply("Exp", {r.x - r.y}); }

absl::Status SumGradient(GradientContext& c) {
  Forward f(c);
  std::vector<int64_t> axes;
  if (f.has_input(1)) {
    MILLRACE_ASSIGN_OR_RETURN(axes, f.KnownInts(1));
  }
  return GradientOver(c, OperandAxes(axes, f.attrs(), f.input_type(0).shape.rank()), OfSum);
}

// --- Formulas ----------------------------------------------------------------------------------

// `count`: of the elements that become one.
template <ScalarTerm (*kFormula)(const ScalarTerm& x, double count)>
std::optional<RowForm> FormOver(const NodeQuery& query, const std::vector<int64_t>& axes,
                                const ScalarTerm& x) {
  const Shape& shape = query.inputs[0]->shape;
  const auto normal = NormalizeAxes(axes, shape.rank());
  if (!normal.ok() || normal->empty()) return std::nullopt;
  return RowForm{*normal, kFormula(x, RowCount(shape, *normal))};
}

template <ScalarTerm (*kFormula)(const ScalarTerm&, double), AxesFn kAxes = AttributeAxes>
std::optional<RowForm> Form(const NodeQuery& query, std::span<const ScalarTerm> x) {
  return FormOver<kFormula>(query, kAxes(query.attrs, query.inputs[0]->shape.rank()), x[0]);
}

ScalarTerm SumForm(const ScalarTerm& x, double) { return RowSum(x); }
ScalarTerm MaxForm(const ScalarTerm& x, double) { return RowMax(x); }
ScalarTerm MinForm(const ScalarTerm& x, double) { return ScalarUnary(ScalarOp::kReduceMin, x); }
ScalarTerm ProdForm(const ScalarTerm& x, double) { return ScalarUnary(ScalarOp::kReduceProd, x); }
ScalarTerm SumSquareForm(const ScalarTerm& x, double) { return RowSum(x * x); }
ScalarTerm L1Form(const ScalarTerm& x, double) { return RowSum(ScalarUnary(ScalarOp::kAbs, x)); }

std::optional<RowForm> SumFormOf(const NodeQuery& query, std::span<const ScalarTerm> x) {
  std::vector<int64_t> axes;
  if (query.inputs.size() > 1 && query.inputs[1].has_value()) {
    const auto known = query.known.find(1);
    if (known == query.known.end()) return std::nullopt;
    axes = known->second;
  }
  axes = OperandAxes(axes, query.attrs, query.inputs[0]->shape.rank());
  return FormOver<SumForm>(query, axes, x[0]);
}

// --- Work and sharding -------------------------------------------------------------------------

Work ReduceWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));  // an addition each
  return work;
}

// `combines`: how results of parts of a row make up the whole row's; nullopt when they do not.
// `passes`: reductions that the op commutes with. `axes`: nullopt where the query leaves them open.
std::vector<ShardingRule> ReduceRules(const NodeQuery& query,
                                      const std::optional<std::vector<int64_t>>& axes,
                                      std::optional<Reduction> combines,
                                      std::span<const Reduction> passes) {
  std::vector<ShardingRule> rules;
  const Shape &in = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  const auto reduced = NormalizeAxes(axes.value_or(std::vector<int64_t>()), in.rank());
  for (int d = 0, to = 0; axes.has_value() && reduced.ok() && d < in.rank(); ++d) {
    const bool reduces = Contains(*reduced, d);
    const int own = to;  // the dim of the result
    if (!reduces || out.rank() == in.rank()) ++to;
    if (!Divisible(in, d) || (reduces && !combines.has_value())) continue;
    ShardingRule rule =
        ReplicateAll(query, StrCat(reduces ? "split reduced dim " : "split dim ", d));
    rule.inputs[0] = ShardDim(d);
    rule.outputs[0] = reduces ? Partial(*combines) : ShardDim(own);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, passes, rules);
  return rules;
}

std::optional<std::vector<int64_t>> AxesOf(const NodeQuery& query, AxesFn axes) {
  return axes(query.attrs, query.inputs[0]->shape.rank());
}

std::vector<ShardingRule> SumRules(const NodeQuery& query) {
  std::optional<std::vector<int64_t>> axes = std::vector<int64_t>();
  if (query.inputs.size() > 1 && query.inputs[1].has_value()) {
    const auto known = query.known.find(1);
    axes = known != query.known.end() ? std::optional(known->second) : std::nullopt;
  }
  if (axes.has_value()) axes = OperandAxes(*axes, query.attrs, query.inputs[0]->shape.rank());
  return ReduceRules(query, axes, Reduction::kSum, kLinearReductions);
}

// A mean of integers is rounded: no part of another mean.
template <AxesFn kAxes = AttributeAxes>
std::vector<ShardingRule> MeanRules(const NodeQuery& query) {
  if (!IsFloat(query.inputs[0]->dtype)) {
    return ReduceRules(query, AxesOf(query, kAxes), std::nullopt, {});
  }
  return ReduceRules(query, AxesOf(query, kAxes), Reduction::kMean, kLinearReductions);
}
template <Reduction kReduction>
std::vector<ShardingRule> OwnRules(const NodeQuery& query) {
  static constexpr Reduction kOwn[] = {kReduction};
  return ReduceRules(query, AxesOf(query, AttributeAxes), kReduction, kOwn);
}
// Sums of something else than the elements.
std::vector<ShardingRule> NormRules(const NodeQuery& query) {
  return ReduceRules(query, AxesOf(query, AttributeAxes), Reduction::kSum, {});
}
std::vector<ShardingRule> WholeRowRules(const NodeQuery& query) {
  return ReduceRules(query, AxesOf(query, AttributeAxes), std::nullopt, {});
}

// --- Definitions -------------------------------------------------------------------------------

OpDef Reducing(std::string name, std::string doc, ReferenceFn reference, GradientFn gradient,
               ShardingFn sharding) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "data", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "reduced", .same_as = "T"}},
          .attrs = {{.name = "axes",
                     .kind = AttrKind::kInts,
                     .doc = "the dims to reduce; absent or empty: all of them"},
                    {.name = "keepdims",
                     .kind = AttrKind::kBool,
                     .default_value = true,
                     .doc = "reduced dims stay, with size 1"}},
          .fusion = FusionClass::kReduction,
          .infer = InferByAttribute,
          .reference = reference,
          .gradient = gradient,
          .sharding = sharding,
          .work = ReduceWork};
}

}  // namespace

OpDef ReduceSumOp() {
  OpDef op = Reducing("ReduceSum", "Sums over axes", SumReference, SumGradient, SumRules);
  op.inputs.push_back({.name = "axes",
                       .dtypes = {DType::kI64},
                       .optional = true,
                       .doc = "the dims to sum over; absent or empty: all of them"});
  op.attrs[0] = {.name = "noop_with_empty_axes",
                 .kind = AttrKind::kBool,
                 .default_value = false,
                 .doc = "absent or empty axes: none of them"};
  op.traits.host_inputs = {1};
  op.row = SumFormOf;
  op.infer = InferByOperand;
  return op;
}

OpDef ReduceMeanOp() {
  OpDef op =
      Reducing("ReduceMean", "Means over axes", Reference<kMeanOf>, Gradient<OfMean>, MeanRules<>);
  op.row = Form<RowMean>;
  return op;
}

OpDef ReduceMaxOp() {
  OpDef op = Reducing("ReduceMax", "Largest elements over axes", Reference<kLargestOf>,
                      Gradient<OfExtremum>, OwnRules<Reduction::kMax>);
  op.row = Form<MaxForm>;
  return op;
}

OpDef ReduceMinOp() {
  OpDef op = Reducing("ReduceMin", "Smallest elements over axes", Reference<kSmallestOf>,
                      Gradient<OfExtremum>, OwnRules<Reduction::kMin>);
  op.row = Form<MinForm>;
  return op;
}

OpDef ReduceProdOp() {
  OpDef op = Reducing("ReduceProd", "Products over axes", Reference<kProductOf>,
                      Gradient<OfProduct>, OwnRules<Reduction::kProd>);
  op.row = Form<ProdForm>;
  return op;
}

OpDef ReduceL1Op() {
  OpDef op = Reducing("ReduceL1", "Sums of magnitudes over axes", Reference<kL1Of>, Gradient<OfL1>,
                      NormRules);
  op.row = Form<L1Form>;
  return op;
}

OpDef ReduceL2Op() {
  return Reducing("ReduceL2", "Euclidean norms over axes", Reference<kL2Of>, Gradient<OfL2>,
                  WholeRowRules);
}

OpDef ReduceSumSquareOp() {
  OpDef op = Reducing("ReduceSumSquare", "Sums of squares over axes", Reference<kSumSquareOf>,
                      Gradient<OfSumSquare>, NormRules);
  op.row = Form<SumSquareForm>;
  return op;
}

OpDef ReduceLogSumOp() {
  return Reducing("ReduceLogSum", "Logarithms of sums over axes", Reference<kLogSumOf>,
                  Gradient<OfLogSum>, WholeRowRules);
}

OpDef ReduceLogSumExpOp() {
  return Reducing("ReduceLogSumExp", "Logarithms of sums of exponentials over axes",
                  Reference<kLogSumExpOf>, Gradient<OfLogSumExp>, WholeRowRules);
}

OpDef GlobalAveragePoolOp() {
  OpDef op =
      Reducing("GlobalAveragePool", "The mean of each channel", Reference<kMeanOf, SpatialAxes>,
               Gradient<OfMean, SpatialAxes>, MeanRules<SpatialAxes>);
  op.inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,spatial...]"}};
  op.outputs = {{.name = "Y", .same_as = "T", .doc = "[N,C,1...]"}};
  op.attrs = {};
  op.infer = InferPool;
  op.row = Form<RowMean, SpatialAxes>;
  return op;
}

}  // namespace millrace
