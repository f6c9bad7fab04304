// Where in `data` the indices of GatherElements, ScatterElements (an index per element, along an
// axis) and GatherND, ScatterND (a tuple per slice, along the first dims after the batch) point.
// Indices count from the end when negative; others out of range are errors.
#ifndef MILLRACE_OPS_PLACES_H_
#define MILLRACE_OPS_PLACES_H_

#include <vector>

#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

struct Places {
  std::vector<int64_t> offsets;  // in `data`, in elements, in the indices' order
  int64_t unit = 1;              // elements at each
};

// An index into dim `axis` of `data`; the other coordinates are the index's own.
absl::StatusOr<Places> ElementPlaces(const Shape& data, const Tensor& indices, int axis);

// The last dim of `indices` holds coordinates of dims batch_dims, batch_dims + 1, ... of `data`;
// the first `batch_dims` dims are the batch, of both.
absl::StatusOr<Places> TuplePlaces(const Shape& data, const Tensor& indices, int batch_dims);

}  // namespace millrace

#endif  // MILLRACE_OPS_PLACES_H_
