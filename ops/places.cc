#include "ops/places.h"

#include <algorithm>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/index_walk.h"

namespace millrace {
namespace {

// Element i of the indices in [0, size).
absl::StatusOr<int64_t> IndexAt(const Tensor& indices, int64_t i, int64_t size) {
  const int64_t index = indices.AsInt64(i);
  if (index < -size || index >= size) {
    return BadInputError(StrCat("index ", index, " (element ", i,
                                " of 'indices') is out of range [", -size, ",", size, ")"));
  }
  return index < 0 ? index + size : index;
}

// Where nothing is, all places are the first: other dims may be so large that offsets overflow.
Shape StridesWithin(const Shape& data) {
  Shape strides = DenseStrides(data);
  if (NumElements(data) == 0) std::fill_n(&strides[0], strides.rank(), 0);
  return strides;
}

}  // namespace

absl::Status CheckElementIndices(const Shape& data, const Shape& indices, int axis) {
  bool fits = data.rank() == indices.rank();
  for (int d = 0; fits && d < data.rank(); ++d) fits = d == axis || indices[d] <= data[d];
  if (fits) return absl::OkStatus();
  return BadInputError(StrCat("'indices' of ", ToString(indices), " must have the rank of data, ",
                              ToString(data), ", and be no larger beside axis ", axis));
}

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

absl::StatusOr<Places> ElementPlaces(const ReferenceContext& c) {
  const Shape& data = c.inputs[0].shape();
  const Tensor& indices = c.inputs[1];
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", 0), data.rank()));
  Places places;
  Shape strides = StridesWithin(data);
  const int64_t stride = strides[axis];
  strides[axis] = 0;
  absl::Status status;
  int64_t i = 0;
  WalkIndices<1>(indices.shape(), {strides}, [&](const std::array<int64_t, 1>& at) {
    const absl::StatusOr<int64_t> index = IndexAt(indices, i++, data[axis]);
    if (!index.ok()) {
      status.Update(index.status());
    } else {
      places.offsets.push_back(at[0] + *index * stride);
    }
  });
  MILLRACE_RETURN_IF_ERROR(status);
  return places;
}

absl::StatusOr<Places> TuplePlaces(const ReferenceContext& c) {
  const Shape& data = c.inputs[0].shape();
  const Tensor& indices = c.inputs[1];
  const int batch_dims = static_cast<int>(c.attrs.Int("batch_dims", 0));
  const Shape& shape = indices.shape();
  const int64_t length = shape[shape.rank() - 1];
  const int first_sliced = batch_dims + static_cast<int>(length);
  Places places;
  places.unit = NumElements(Shape(data.dims().subspan(first_sliced)));
  const Shape strides = StridesWithin(data);
  const Shape tuples(shape.dims().first(shape.rank() - 1));
  Shape batch_strides;
  for (int d = 0; d < tuples.rank(); ++d) batch_strides.push_back(d < batch_dims ? strides[d] : 0);
  absl::Status status;
  int64_t i = 0;
  WalkIndices<1>(tuples, {batch_strides}, [&](const std::array<int64_t, 1>& at) {
    int64_t offset = at[0];
    for (int k = 0; k < length; ++k) {
      const int d = batch_dims + k;
      const absl::StatusOr<int64_t> index = IndexAt(indices, i++, data[d]);
      status.Update(index.status());
      if (index.ok()) offset += *index * strides[d];
    }
    places.offsets.push_back(offset);
  });
  MILLRACE_RETURN_IF_ERROR(status);
  return places;
}

Term PlacesInGraph::Gather(const Term& x) const {
  Term result = tuples ? Apply("GatherND", {x, indices})
                       : Apply("GatherElements", {x, indices}, AxisAttr(axis));
  result.dtype = x.dtype;
  return result;
}

Term PlacesInGraph::Scatter(const Term& into, const Term& updates,
                            const std::string& reduction) const {
  Attrs attrs = tuples ? Attrs() : AxisAttr(axis);
  attrs.Set("reduction", reduction);
  return Apply(tuples ? "ScatterND" : "ScatterElements", {into, indices, updates},
               std::move(attrs));
}

namespace {

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

}  // namespace

PlacesInGraph ElementsOf(const Forward& f) {
  return {.tuples = false, .indices = f.input(1), .axis = f.attrs().Int("axis", 0)};
}

PlacesInGraph TuplesOf(const Forward& f) {
  const int batch_dims = static_cast<int>(f.attrs().Int("batch_dims", 0));
  const Term indices = batch_dims == 0
                           ? f.input(1)
                           : WithBatchCoordinates(f.input(1), f.input_type(1).shape, batch_dims);
  return {.tuples = true, .indices = indices};
}

}  // namespace millrace
