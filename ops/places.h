// Where in `data` the indices of GatherElements, ScatterElements (an index per element, along an
// axis) and GatherND, ScatterND (a tuple per slice, along the first dims after the batch) point.
// Indices count from the end when negative; others out of range are errors.
#ifndef MILLRACE_OPS_PLACES_H_
#define MILLRACE_OPS_PLACES_H_

#include <string>
#include <vector>

#include "ops/gradient.h"
#include "ops/op_def.h"

namespace millrace {

// --- Inference ---------------------------------------------------------------------------------
// Errors when indices do not fit data. Beside the axis they are coordinates of data, so there may
// be no more of them than data has.
absl::Status CheckElementIndices(const Shape& data, const Shape& indices, int axis);
// Gives the shape of what lies at the places.
absl::StatusOr<Shape> CheckTuples(const Shape& data, const Shape& indices, int64_t batch_dims);

// --- Reference ---------------------------------------------------------------------------------
struct Places {
  std::vector<int64_t> offsets;  // in `data`, in elements, in the indices' order
  int64_t unit = 1;              // elements at each
};

// Of operands 0 and 1, data and indices, and attribute "axis" or "batch_dims".
absl::StatusOr<Places> ElementPlaces(const ReferenceContext& context);
absl::StatusOr<Places> TuplePlaces(const ReferenceContext& context);
using PlacesFn = absl::StatusOr<Places> (*)(const ReferenceContext& context);

// --- Gradient ----------------------------------------------------------------------------------
// Gathering and scattering at the places of a forward node.
struct PlacesInGraph {
  bool tuples = false;
  Term indices;
  int64_t axis = 0;  // of elements

  Term Gather(const Term& x) const;
  Term Scatter(const Term& into, const Term& updates, const std::string& reduction) const;
};
PlacesInGraph ElementsOf(const Forward& forward);
PlacesInGraph TuplesOf(const Forward& forward);
using PlacesInGraphFn = PlacesInGraph (*)(const Forward& forward);

}  // namespace millrace

#endif  // MILLRACE_OPS_PLACES_H_
