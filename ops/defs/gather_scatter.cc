// GatherElements and GatherND pick elements, or slices, of data by position; ScatterElements and
// ScatterND put updates at positions of a copy of data, in the order of the indices: in place of
// what is there, or combined with it. Each pair is one idea (ops/places.h); their gradients are
// each other.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/places.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// --- Inference ---------------------------------------------------------------------------------

// Indices beside the axis are coordinates of data, so there may be no more of them than data has.
absl::Status CheckElementIndices(const Shape& data, const Shape& indices, int axis) {
  bool fits = data.rank() == indices.rank();
  for (int d = 0; fits && d < data.rank(); ++d) fits = d == axis || indices[d] <= data[d];
  if (fits) return absl::OkStatus();
  return BadInputError(StrCat("'indices' of ", ToString(indices), " must have the rank of data, ",
                              ToString(data), ", and be no larger beside axis ", axis));
}

// Gives the shape of what lies at the places.
absl::StatusOr<Shape> CheckTuples(const Shape& data, const Shape& indices, int64_t batch_dims) {
  if (data.rank() == 0 || indices.rank() == 0) {
    return BadInputError("'data' and 'indices' must have at least one dim");
  }
  if (batch_dims < 0 || batch_dims >= std::min(data.rank(), indices.rank())) {
    return BadInputError(StrCat("'batch_dims' is ", batch_dims, ", allowed are 0 to ",
                                std::min(data.rank(), indices.rank()) - 1));
  }
  const int batch = static_cast<int>(batch_dims);
  for (int d = 0; d < batch; ++d) {
    if (data[d] != indices[d]) {
      return BadInputError(
          StrCat("batch dim ", d, " is ", data[d], " in data and ", indices[d], " in indices"));
    }
  }
  const int64_t length = indices[indices.rank() - 1];
  if (length > data.rank() - batch) {
    return BadInputError(
        StrCat("indices of ", length, " coordinates are too long for data, ", ToString(data)));
  }
  const int rank = indices.rank() - 1 + data.rank() - batch - static_cast<int>(length);
  if (rank > kMaxRank) {
    return BadInputError(
        StrCat("the result would have ", rank, " dims, at most ", kMaxRank, " are possible"));
  }
  Shape shape(indices.dims().first(indices.rank() - 1));
  for (int64_t d : data.dims().subspan(batch + length)) shape.push_back(d);
  return shape;
}

absl::Status InferGatherElements(InferContext& c) {
  const TensorType &data = c.input(0), &indices = c.input(1);
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs().Int("axis", 0), data.shape.rank()));
  MILLRACE_RETURN_IF_ERROR(CheckElementIndices(data.shape, indices.shape, axis));
  c.set_output(0, {data.dtype, indices.shape});
  return absl::OkStatus();
}

absl::Status InferGatherND(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, CheckTuples(c.input(0).shape, c.input(1).shape,
                                                           c.attrs().Int("batch_dims", 0)));
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

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

// --- Reference ---------------------------------------------------------------------------------

using PlacesFn = absl::StatusOr<Places> (*)(const ReferenceContext& context);

absl::StatusOr<Places> OfElements(const ReferenceContext& c) {
  const Shape& data = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", 0), data.rank()));
  return ElementPlaces(data, c.inputs[1], axis);
}

absl::StatusOr<Places> OfTuples(const ReferenceContext& c) {
  return TuplePlaces(c.inputs[0].shape(), c.inputs[1],
                     static_cast<int>(c.attrs.Int("batch_dims", 0)));
}

template <PlacesFn kPlaces>
absl::Status GatherReference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const Places places, kPlaces(c));
  const int64_t size = SizeOf(c.inputs[0].dtype()), bytes = places.unit * size;
  std::byte* to = c.outputs[0].mutable_bytes();
  for (int64_t offset : places.offsets) {
    std::memcpy(to, c.inputs[0].bytes() + offset * size, bytes);
    to += bytes;
  }
  return absl::OkStatus();
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

// --- Gradient ----------------------------------------------------------------------------------

// Gathering and scattering at the places of a forward node.
struct PlacesOf {
  bool tuples = false;
  Term indices;
  int64_t axis = 0;  // of elements

  Term Gather(const Term& x) const {
    Term result = tuples ? Apply("GatherND", {x, indices})
                         : Apply("GatherElements", {x, indices}, AxisAttr(axis));
    result.dtype = x.dtype;
    return result;
  }
  Term Scatter(const Term& into, const Term& updates, const std::string& reduction) const {
    Attrs attrs = tuples ? Attrs() : AxisAttr(axis);
    attrs.Set("reduction", reduction);
    return Apply(tuples ? "ScatterND" : "ScatterElements", {into, indices, updates},
                 std::move(attrs));
  }
};

// Tuples of a batch with the batch's own coordinates in front, so that they need no batch.
Term WithBatchCoordinates(const Term& indices, const Shape& shape, int batch_dims) {
  GraphBuilder& builder = *indices.builder;
  const auto number = [&](int64_t value) {
    Tensor scalar = Tensor::Zeros({indices.dtype, {}});
    scalar.Set(0, static_cast<double>(value));
    return Term{&builder, builder.Constant("number", std::move(scalar)), indices.dtype};
  };
  Shape one_each = shape;
  one_each[shape.rank() - 1] = 1;
  std::vector<Term> parts;
  for (int d = 0; d < batch_dims; ++d) {
    const Term range = Apply("Range", {number(0), number(shape[d]), number(1)});
    Shape along;
    for (int e = 0; e < shape.rank(); ++e) along.push_back(e == d ? shape[d] : 1);
    parts.push_back(ExpandTo(Reshape(range, along), one_each));
  }
  parts.push_back(indices);
  return Apply("Concat", parts, AxisAttr(-1));
}

PlacesOf ElementsOf(const Forward& f) {
  return {.tuples = false, .indices = f.input(1), .axis = f.attrs().Int("axis", 0)};
}

PlacesOf TuplesOf(const Forward& f) {
  const int batch_dims = static_cast<int>(f.attrs().Int("batch_dims", 0));
  const Term indices = batch_dims == 0
                           ? f.input(1)
                           : WithBatchCoordinates(f.input(1), f.input_type(1).shape, batch_dims);
  return {.tuples = true, .indices = indices};
}

template <PlacesOf (*kPlaces)(const Forward&)>
absl::Status GatherGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term zeros = Zeros(c.builder, f.input_type(0));
  f.set_grad(0, kPlaces(f).Scatter(zeros, f.output_grad(0), "add"));
  return absl::OkStatus();
}

// The gradients of data and updates. Of a maximum or minimum: equal parts for all that are it.
struct ScatterGrads {
  Term data, updates;
};

ScatterGrads GradsOfExtremum(const PlacesOf& at, const Forward& f) {
  const Term y = f.output(0), dy = f.output_grad(0);
  const Term data_wins = CastTo(EqualTo(f.input(0), y), y.dtype);
  const Term updates_win = CastTo(EqualTo(f.input(2), at.Gather(y)), y.dtype);
  const Term share = dy / at.Scatter(data_wins, updates_win, "add");
  return {share * data_wins, at.Gather(share) * updates_win};
}

ScatterGrads GradsOfProduct(const PlacesOf& at, const Forward& f) {
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

template <PlacesOf (*kPlaces)(const Forward&)>
absl::Status ScatterGradient(GradientContext& c) {
  Forward f(c);
  const PlacesOf at = kPlaces(f);
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

// --- Sharding ----------------------------------------------------------------------------------

std::vector<ShardingRule> GatherElementsRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape &data = query.inputs[0]->shape, &indices = query.inputs[1]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), data.rank());
  for (int d = 0; axis.ok() && d < indices.rank(); ++d) {
    if (!Divisible(indices, d)) continue;
    if (d == *axis) {
      rules.push_back({{Replicate(), ShardDim(d)}, {ShardDim(d)}, StrCat("split indices dim ", d)});
    } else if (data[d] == indices[d]) {
      rules.push_back({{ShardDim(d), ShardDim(d)}, {ShardDim(d)}, StrCat("split dim ", d)});
    }
  }
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

std::vector<ShardingRule> GatherNDRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape &data = query.inputs[0]->shape, &indices = query.inputs[1]->shape;
  const int batch_dims = static_cast<int>(query.attrs.Int("batch_dims", 0));
  const int tuples = indices.rank() - 1;
  for (int d = 0; d < tuples; ++d) {
    if (!Divisible(indices, d)) continue;
    rules.push_back({{d < batch_dims ? ShardDim(d) : Replicate(), ShardDim(d)},
                     {ShardDim(d)},
                     StrCat("split indices dim ", d)});
  }
  const int first_sliced = batch_dims + static_cast<int>(indices[tuples]);
  for (int d = first_sliced; d < data.rank(); ++d) {
    if (!Divisible(data, d)) continue;
    rules.push_back({{ShardDim(d), Replicate()},
                     {ShardDim(tuples + d - first_sliced)},
                     StrCat("split dim ", d, " of the data")});
  }
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
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

// --- Definitions -------------------------------------------------------------------------------

// Only what is picked moves.
Work GatherWork(const NodeQuery& query) {
  return {.flops = 0,
          .bytes = static_cast<double>(ByteSize(*query.inputs[1])) +
                   2 * static_cast<double>(ByteSize(*query.outputs[0]))};
}

OpDef Gathering(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "data", .same_as = "T"},
                     {.name = "indices", .dtypes = IndexTypes(), .doc = "in [-n,n) of a dim of n"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .infer = nullptr,
          .work = GatherWork};
}

OpDef Scattering(std::string name, std::string doc) {
  OpDef op = Gathering(std::move(name), std::move(doc));
  op.inputs.push_back({.name = "updates", .same_as = "T", .doc = "one for each position"});
  op.attrs = {{.name = "reduction",
               .kind = AttrKind::kString,
               .default_value = "none",
               .choices = {"none", "add", "mul", "max", "min"},
               .doc = "how updates are combined with what is there; none: they take its place"}};
  op.traits = {.in_place = {{0, 0}}};
  op.work = nullptr;
  return op;
}

AttrSpec Axis() {
  return {.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{0}, .doc = "of data"};
}

}  // namespace

OpDef GatherElementsOp() {
  OpDef op = Gathering("GatherElements", "Elements of data, by position along an axis");
  op.attrs = {Axis()};
  op.infer = InferGatherElements;
  op.reference = GatherReference<OfElements>;
  op.gradient = GatherGradient<ElementsOf>;
  op.sharding = GatherElementsRules;
  return op;
}

OpDef GatherNDOp() {
  OpDef op = Gathering("GatherND", "Slices of data, by positions along its first dims");
  op.attrs = {{.name = "batch_dims",
               .kind = AttrKind::kInt,
               .default_value = int64_t{0},
               .doc = "how many first dims data and indices share"}};
  op.infer = InferGatherND;
  op.reference = GatherReference<OfTuples>;
  op.gradient = GatherGradient<TuplesOf>;
  op.sharding = GatherNDRules;
  return op;
}

OpDef ScatterElementsOp() {
  OpDef op = Scattering("ScatterElements", "Data with updates at positions along an axis");
  op.attrs.insert(op.attrs.begin(), Axis());
  op.infer = InferScatterElements;
  op.reference = ScatterReference<OfElements>;
  op.gradient = ScatterGradient<ElementsOf>;
  op.sharding = ScatterElementsRules;
  return op;
}

OpDef ScatterNDOp() {
  OpDef op = Scattering("ScatterND", "Data with slices replaced at positions along its first dims");
  op.infer = InferScatterND;
  op.reference = ScatterReference<OfTuples>;
  op.gradient = ScatterGradient<TuplesOf>;
  op.sharding = ScatterNDRules;
  return op;
}

}  // namespace millrace
