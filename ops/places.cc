#include "ops/places.h"

#include "graph/strings.h"
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

}  // namespace

absl::StatusOr<Places> ElementPlaces(const Shape& data, const Tensor& indices, int axis) {
  Places places;
  Shape strides = DenseStrides(data);
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

absl::StatusOr<Places> TuplePlaces(const Shape& data, const Tensor& indices, int batch_dims) {
  const Shape& shape = indices.shape();
  const int64_t length = shape[shape.rank() - 1];
  const int first_sliced = batch_dims + static_cast<int>(length);
  Places places;
  places.unit = NumElements(Shape(data.dims().subspan(first_sliced)));
  const Shape strides = DenseStrides(data);
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

}  // namespace millrace
