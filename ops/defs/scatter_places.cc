// ScatterElements and ScatterND put updates at positions (ops/places.h) of a copy of data, in the
// order of the indices: in place of what is there, or combined with it. Their gradients gather.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/places.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status InferScatter(InferContext& c, const Shape& expected) {
  if (c.input(2).shape != expected) {
    return BadInputError(
        StrCat("'updates' must be ", ToString(expected), ", but is ", ToString(c.input(2).shape)));
  }
  const std::string reduction = c.attrs().String("reduction", "none");
  if (reduction != "none" && c.input(0).dtype == DType::kBool) {
    return BadInputError(StrCat("bools have no reduction '", reduction, "'"));
  }
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferScatterElements(InferContext& c) {
  const Shape &data = c.input(0).shape, &indices = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis", 0), data.rank()));
  MILLRACE_RETURN_IF_ERROR(CheckElementIndices(data, indices, axis));
  return InferScatter(c, indices);
}

absl::Status InferScatterND(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Shape at, CheckTuples(c.input(0).shape, c.input(1).shape, 0));
  return InferScatter(c, at);
}

// combine(what is there, update), on elements widened to SumType and rounded once, at the end.
template <typename T, typename F>
void Combine(const Places& places, const Tensor& updates, Tensor& out, F&& combine) {
  using Wide = SumType<T>;
  const std::span<T> to = out.mutable_data<T>();
  std::vector<Wide> wide(to.begin(), to.end());
  const T* from = updates.data<T>().data();
  for (int64_t offset : places.offsets) {
    for (int64_t i = 0; i < places.unit; ++i) {
      Wide& at = wide[offset + i];
      at = combine(at, static_cast<Wide>(*from++));
    }
  }
  for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(wide[i]);
}

void Replace(const Places& places, const Tensor& updates, Tensor& out) {
  const int64_t size = SizeOf(out.dtype()), bytes = places.unit * size;
  const std::byte* from = updates.bytes();
  for (int64_t offset : places.offsets) {
    std::memcpy(out.mutable_bytes() + offset * size, from, bytes);
    from += bytes;
  }
}

// On elements as T orders them, which SumType's do not where T is a signed integer.
template <typename T, bool kLargest>
constexpr auto kPick = [](auto there, auto update) {
  const auto a = static_cast<NativeType<T>>(there), b = static_cast<NativeType<T>>(update);
  if (a != a || b != b) return a != a ? there : update;  // NaN stays
  return (kLargest ? a < b : b < a) ? update : there;
};

template <PlacesFn kPlaces>
absl::Status ScatterReference(const ReferenceContext& c) {
  Tensor& out = c.outputs[0];
  std::memmove(out.mutable_bytes(), c.inputs[0].bytes(), out.size_bytes());
  if (c.inputs[2].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Places places, kPlaces(c));
  const std::string reduction = c.attrs.String("reduction", "none");
  if (reduction == "none") {
    Replace(places, c.inputs[2], out);
    return absl::OkStatus();
  }
  return VisitNumeric(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto combine = [&](auto f) { Combine<T>(places, c.inputs[2], out, f); };
    if (reduction == "add") combine([](auto a, auto b) { return a + b; });
    if (reduction == "mul") combine([](auto a, auto b) { return a * b; });
    if (reduction == "max") combine(kPick<T, true>);
    if (reduction == "min") combine(kPick<T, false>);
    return absl::OkStatus();
  });
}

// The gradients of data and updates. Of a maximum or minimum: equal parts for all that are it.
struct ScatterGrads {
  Term data, updates;
};

ScatterGrads GradsOfExtremum(const PlacesInGraph& at, const Forward& f) {
  const Term y = f.output(0), dy = f.output_grad(0);
  const Term data_wins = CastTo(EqualTo(f.input(0), y), y.dtype);
  const Term updates_win = CastTo(EqualTo(f.input(2), at.Gather(y)), y.dtype);
  const Term share = dy / at.Scatter(data_wins, updates_win, "add");
  return {share * data_wins, at.Gather(share) * updates_win};
}

ScatterGrads GradsOfProduct(const PlacesInGraph& at, const Forward& f) {
  const Term data = f.input(0), updates = f.input(2), dy = f.output_grad(0);
  const Term one = Scalar(data, 1), data_zero = EqualTo(data, 0),
             updates_zero = EqualTo(updates, 0);
  const Term data_rest = Select(data_zero, one, data);
  const Term updates_rest = Select(updates_zero, one, updates);
  const Term product = at.Scatter(data_rest, updates_rest, "mul");
  const Term zeros = at.Scatter(CastTo(data_zero, dy.dtype), CastTo(updates_zero, dy.dtype), "add");
  return {dy * ProductSlope(data_zero, data_rest, product, zeros),
          at.Gather(dy) *
              ProductSlope(updates_zero, updates_rest, at.Gather(product), at.Gather(zeros))};
}

template <PlacesInGraphFn kPlaces>
absl::Status ScatterGradient(GradientContext& c) {
  Forward f(c);
  const PlacesInGraph at = kPlaces(f);
  const Term dy = f.output_grad(0);
  const std::string reduction = f.attrs().String("reduction", "none");
  if (reduction == "none") {
    if (f.wants(0)) f.set_grad(0, at.Scatter(dy, Zeros(c.builder, f.input_type(2)), "none"));
    if (f.wants(2)) f.set_grad(2, at.Gather(dy));
    return absl::OkStatus();
  }
  if (reduction == "add") {
    if (f.wants(0)) f.set_grad(0, dy);
    if (f.wants(2)) f.set_grad(2, at.Gather(dy));
    return absl::OkStatus();
  }
  const ScatterGrads grads = reduction == "mul" ? GradsOfProduct(at, f) : GradsOfExtremum(at, f);
  if (f.wants(0)) f.set_grad(0, grads.data);
  if (f.wants(2)) f.set_grad(2, grads.updates);
  return absl::OkStatus();
}

// Rules that a scatter's reduction allows: partial data and updates together; and, where updates
// are combined, each device's own part of them, cut along any of `cuts`.
void AddScatterRules(const NodeQuery& query, const std::vector<int>& cuts,
                     std::vector<ShardingRule>& rules) {
  const std::string mode = query.attrs.String("reduction", "none");
  std::vector<Reduction> together(std::begin(kAllReductions), std::end(kAllReductions));
  if (mode == "add") together = {Reduction::kSum, Reduction::kMean};
  if (mode == "mul") together = {Reduction::kProd};
  if (mode == "max") together = {Reduction::kMax};
  if (mode == "min") together = {Reduction::kMin};
  for (Reduction reduction : together) {
    rules.push_back({{Partial(reduction), Replicate(), Partial(reduction)},
                     {Partial(reduction)},
                     StrCat("keep data and updates partial ", ReductionName(reduction))});
  }
  for (int d : cuts) {
    if (mode == "none" || !Divisible(query.inputs[1]->shape, d)) continue;
    rules.push_back({{Partial(together[0]), ShardDim(d), ShardDim(d)},
                     {Partial(together[0])},
                     StrCat("split updates dim ", d)});
  }
}

std::vector<ShardingRule> ScatterElementsRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape &data = query.inputs[0]->shape, &indices = query.inputs[1]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), data.rank());
  if (!axis.ok()) return rules;
  for (int d = 0; d < data.rank(); ++d) {
    if (d == *axis || data[d] != indices[d] || !Divisible(data, d)) continue;
    rules.push_back(
        {{ShardDim(d), ShardDim(d), ShardDim(d)}, {ShardDim(d)}, StrCat("split dim ", d)});
  }
  AddScatterRules(query, {*axis}, rules);
  return rules;
}

std::vector<ShardingRule> ScatterNDRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape &data = query.inputs[0]->shape, &indices = query.inputs[1]->shape;
  const int tuples = indices.rank() - 1, first_sliced = static_cast<int>(indices[tuples]);
  for (int d = first_sliced; d < data.rank(); ++d) {
    if (!Divisible(data, d)) continue;
    rules.push_back({{ShardDim(d), Replicate(), ShardDim(tuples + d - first_sliced)},
                     {ShardDim(d)},
                     StrCat("split dim ", d, " of the data")});
  }
  std::vector<int> cuts;
  for (int d = 0; d < tuples; ++d) cuts.push_back(d);
  AddScatterRules(query, cuts, rules);
  return rules;
}

OpDef Scattering(std::string name, std::string doc) {
  OpDef op{.name = std::move(name), .doc = std::move(doc), .infer = nullptr};
  op.inputs = {{.name = "data", .same_as = "T"},
               {.name = "indices", .dtypes = IndexTypes(), .doc = "in [-n,n) of a dim of n"},
               {.name = "updates", .same_as = "T", .doc = "one for each position"}};
  op.outputs = {{.name = "output", .same_as = "T"}};
  op.attrs = {{.name = "reduction",
               .kind = AttrKind::kString,
               .default_value = "none",
               .choices = {"none", "add", "mul", "max", "min"},
               .doc = "how updates are combined with what is there; none: they take its place"}};
  op.traits = {.in_place = {{0, 0}}};
  return op;
}

}  // namespace

OpDef ScatterElementsOp() {
  OpDef op = Scattering("ScatterElements", "Data with updates at positions along an axis");
  op.attrs.insert(
      op.attrs.begin(),
      {.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{0}, .doc = "of data"});
  op.infer = InferScatterElements;
  op.reference = ScatterReference<ElementPlaces>;
  op.gradient = ScatterGradient<ElementsOf>;
  op.sharding = ScatterElementsRules;
  return op;
}

OpDef ScatterNDOp() {
  OpDef op = Scattering("ScatterND", "Data with slices replaced at positions along its first dims");
  op.infer = InferScatterND;
  op.reference = ScatterReference<TuplePlaces>;
  op.gradient = ScatterGradient<TuplesOf>;
  op.sharding = ScatterNDRules;
  return op;
}

}  // namespace millrace
