#include "ops/broadcast.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int skip = longer.rank() - shorter.rank();
  Shape result = longer;
  for (int d = skip; d < longer.rank(); ++d) {
    const int64_t x = longer[d], y = shorter[d - skip];
    if (x != y && x != 1 && y != 1) {
      const int from_end = longer.rank() - d;
      return BadInputError(StrCat("shapes ", ToString(a), " and ", ToString(b),
                                  " do not broadcast: dims ", a[a.rank() - from_end], " and ",
                                  b[b.rank() - from_end], " differ and neither is 1"));
    }
    result[d] = x == 1 ? y : x;
  }
  return result;
}

Shape BroadcastStrides(const Shape& shape, const Shape& space) {
  const Shape dense = DenseStrides(shape);
  const int skip = space.rank() - shape.rank();
  MILLRACE_CHECK(skip >= 0);
  Shape strides = space;
  for (int d = 0; d < space.rank(); ++d) {
    const bool repeated = d < skip || shape[d - skip] == 1;
    strides[d] = repeated ? 0 : dense[d - skip];
  }
  return strides;
}

}  // namespace millrace
