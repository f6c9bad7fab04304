// GatherElements and GatherND pick elements, or slices, of data by position (ops/places.h). Their
// gradients scatter.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/places.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

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

template <PlacesInGraphFn kPlaces>
absl::Status GatherGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term zeros = Zeros(c.builder, f.input_type(0));
  f.set_grad(0, kPlaces(f).Scatter(zeros, f.output_grad(0), "add"));
  return absl::OkStatus();
}

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

AttrSpec Axis() {
  return {.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{0}, .doc = "of data"};
}

}  // namespace

OpDef GatherElementsOp() {
  OpDef op = Gathering("GatherElements", "Elements of data, by position along an axis");
  op.attrs = {Axis()};
  op.infer = InferGatherElements;
  op.reference = GatherReference<ElementPlaces>;
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
  op.reference = GatherReference<TuplePlaces>;
  op.gradient = GatherGradient<TuplesOf>;
  op.sharding = GatherNDRules;
  return op;
}

}  // namespace millrace
