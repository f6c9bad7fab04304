#include "ops/product.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {
Shape Leading(const Shape& shape, int drop) {
  return Shape(shape.dims().first(std::max(0, shape.rank() - drop)));
}

absl::StatusOr<Product> ProductOf(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0) return BadInputError("operands must have at least one dim");
  Product p;
  p.batch_a = Leading(a, 2);
  p.batch_b = Leading(b, 2);
  p.k = a[a.rank() - 1];
  if (a.rank() > 1) p.m = a[a.rank() - 2];
  if (b.rank() > 1) p.n = b[b.rank() - 1];
  const int64_t k_of_b = b[std::max(0, b.rank() - 2)];
  if (p.k != k_of_b) return BadInputError(StrCat("inner sizes differ: ", p.k, " and ", k_of_b));
  MILLRACE_ASSIGN_OR_RETURN(p.batch, BroadcastShapes(p.batch_a, p.batch_b));
  p.result = p.batch;
  if (a.rank() > 1) p.result.push_back(p.m);
  if (b.rank() > 1) p.result.push_back(p.n);
  return p;
}

}  // namespace millrace
