// Gather picks slices of `data` along an axis by position; grad.Gather, its transpose, adds slices
// up at those positions. Positions count from the end when negative; others out of range are
// errors.
#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

constexpr int64_t kMaxCheckedWhilePlanning = 4096;

// All positions in [0, size).
absl::StatusOr<std::vector<int64_t>> Positions(const Tensor& indices, int64_t size) {
  std::vector<int64_t> positions = IntsOf(indices);
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t& p = positions[i];
    if (p < -size || p >= size) {
      return BadInputError(StrCat("index ", p, " (element ", i, " of 'indices') is out of range [",
                                  -size, ",", size, ")"));
    }
    if (p < 0) p += size;
  }
  return positions;
}

// `shape` with dim `axis` replaced by the dims of `with`.
absl::StatusOr<Shape> Replace(const Shape& shape, int axis, const Shape& with) {
  if (shape.rank() - 1 + with.rank() > kMaxRank) {
    return BadInputError(StrCat("the result would have ", shape.rank() - 1 + with.rank(),
                                " dims, at most ", kMaxRank, " are possible"));
  }
  Shape result(shape.dims().first(axis));
  for (int64_t d : with) result.push_back(d);
  for (int64_t d : shape.dims().subspan(axis + 1)) result.push_back(d);
  return result;
}

absl::Status Infer(InferContext& c) {
  const TensorType &data = c.input(0), &indices = c.input(1);
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs().Int("axis", 0), data.shape.rank()));
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, Replace(data.shape, axis, indices.shape));
  if (NumElements(indices.shape) <= kMaxCheckedWhilePlanning) {
    const std::optional<Tensor> constant = c.constant(1);
    if (constant.has_value()) {
      MILLRACE_RETURN_IF_ERROR(Positions(*constant, data.shape[axis]).status());
    }
  }
  c.set_output(0, {data.dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor& data = c.inputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", 0), data.shape().rank()));
  const AxisView view = ViewAround(data.shape(), axis);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> positions,
                            Positions(c.inputs[1], view.size));
  const int64_t slice = view.inner * SizeOf(data.dtype());
  std::byte* to = c.outputs[0].mutable_bytes();
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t p : positions) {
      std::memcpy(to, data.bytes() + (o * view.size + p) * slice, slice);
      to += slice;
    }
  }
  return absl::OkStatus();
}

// Only the slices picked move.
Work GatherWork(const NodeQuery& query) {
  return {.flops = 0,
          .bytes = static_cast<double>(ByteSize(*query.inputs[1])) +
                   2 * static_cast<double>(ByteSize(*query.outputs[0]))};
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape& data = f.input_type(0).shape;
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(f.attrs().Int("axis", 0), data.rank()));
  Attrs attrs;
  attrs.Set("axis", int64_t{axis});
  attrs.Set("size", data[axis]);
  f.set_grad(0, Apply("grad.Gather", {f.output_grad(0), f.input(1)}, std::move(attrs)));
  return absl::OkStatus();
}

// Gather and grad.Gather are transposes: `data` is the operand with the whole axis, `picked` the
// one with the indices' dims in its place.
void AddRules(const Shape& data, const Shape& indices, int axis, bool transposed,
              std::vector<ShardingRule>& rules) {
  const auto add = [&](std::string note, AxisSharding in_data, AxisSharding in_indices,
                       AxisSharding in_picked) {
    if (transposed) {
      rules.push_back({{in_picked, in_indices}, {in_data}, std::move(note)});
    } else {
      rules.push_back({{in_data, in_indices}, {in_picked}, std::move(note)});
    }
  };
  for (int d = 0; d < data.rank(); ++d) {
    if (d == axis || !Divisible(data, d)) continue;
    const int picked = d < axis ? d : d - 1 + indices.rank();
    add(StrCat("split dim ", d, " of the data"), ShardDim(d), Replicate(), ShardDim(picked));
  }
  for (int d = 0; d < indices.rank(); ++d) {
    if (!Divisible(indices, d)) continue;
    add(StrCat("split dim ", d, " of the indices"),
        transposed ? Partial(Reduction::kSum) : Replicate(), ShardDim(d), ShardDim(axis + d));
  }
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& data = query.inputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), data.rank());
  if (axis.ok()) AddRules(data, query.inputs[1]->shape, *axis, /*transposed=*/false, rules);
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

// --- grad.Gather -------------------------------------------------------------------------------

absl::Status GradInfer(InferContext& c) {
  const TensorType &dy = c.input(0), &indices = c.input(1);
  const int rank = dy.shape.rank() - indices.shape.rank() + 1;
  if (rank < 1) return BadInputError("dY has fewer dims than indices");
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs().Int("axis", 0), rank));
  const int64_t size = c.attrs().Int("size", 0);
  if (size < 0) return BadInputError(StrCat("'size' is ", size));
  const Shape middle(dy.shape.dims().subspan(axis, indices.shape.rank()));
  if (middle != indices.shape) {
    return BadInputError(StrCat("dY has dims ", ToString(middle), " at axis ", axis,
                                " where indices have ", ToString(indices.shape)));
  }
  Shape shape(dy.shape.dims().first(axis));
  shape.push_back(size);
  for (int64_t d : dy.shape.dims().subspan(axis + indices.shape.rank())) shape.push_back(d);
  c.set_output(0, {dy.dtype, shape});
  return absl::OkStatus();
}

absl::Status GradReference(const ReferenceContext& c) {
  Tensor& data = c.outputs[0];
  MILLRACE_ASSIGN_OR_RETURN(const int axis,
                            NormalizeAxis(c.attrs.Int("axis", 0), data.shape().rank()));
  const AxisView view = ViewAround(data.shape(), axis);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> positions,
                            Positions(c.inputs[1], view.size));
  return VisitFloats(data.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = c.inputs[0].data<T>().data();
    std::vector<double> sums(data.num_elements());
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t p : positions) {
        double* to = sums.data() + (o * view.size + p) * view.inner;
        for (int64_t i = 0; i < view.inner; ++i) to[i] += static_cast<double>(*dy++);
      }
    }
    const std::span<T> result = data.mutable_data<T>();
    for (size_t i = 0; i < result.size(); ++i) result[i] = Narrow<T>(sums[i]);
    return absl::OkStatus();
  });
}

absl::Status GradGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  Attrs attrs;
  attrs.Set("axis", f.attrs().Int("axis", 0));
  f.set_grad(0, Apply("Gather", {f.output_grad(0), f.input(1)}, std::move(attrs)));
  return absl::OkStatus();
}

std::vector<ShardingRule> GradRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& data = query.outputs[0]->shape;
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", 0), data.rank());
  if (axis.ok()) AddRules(data, query.inputs[1]->shape, *axis, /*transposed=*/true, rules);
  AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

Work GradWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(query.inputs[0]->shape));
  return work;
}

AttrSpec Axis() {
  return {
      .name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{0}, .doc = "of the data"};
}

}  // namespace

OpDef GatherOp() {
  return {.name = "Gather",
          .doc = "Slices of data along an axis, by position",
          .inputs = {{.name = "data", .same_as = "T"},
                     {.name = "indices",
                      .dtypes = IndexTypes(),
                      .doc = "in [-n,n) for an axis of size n"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {Axis()},
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = GatherWork};
}

OpDef GradGatherOp() {
  return {.name = "grad.Gather",
          .doc = "The gradient of Gather: slices of dY added up by position, zeros elsewhere",
          .inputs = {{.name = "dY", .dtypes = FloatTypes(), .same_as = "T"},
                     {.name = "indices", .dtypes = IndexTypes()}},
          .outputs = {{.name = "dX", .same_as = "T"}},
          .attrs = {Axis(),
                    {.name = "size",
                     .kind = AttrKind::kInt,
                     .required = true,
                     .doc = "of the data along the axis"}},
          .infer = GradInfer,
          .reference = GradReference,
          .gradient = GradGradient,
          .sharding = GradRules,
          .work = GradWork};
}

}  // namespace millrace
