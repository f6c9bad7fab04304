// Shapes of matrix products, as MatMul has them: matrices in the last two dims, batch dims
// broadcast; a rank-1 A is a row, a rank-1 B a column, and that dim is absent from the result.
#ifndef MILLRACE_OPS_PRODUCT_H_
#define MILLRACE_OPS_PRODUCT_H_

#include <array>

#include "graph/status.h"
#include "graph/types.h"
#include "ops/broadcast.h"
#include "ops/index_walk.h"

namespace millrace {

// All dims but the last `drop`.
Shape Leading(const Shape& shape, int drop);

// Both operands as batches of matrices: [batch..., m, k] x [batch..., k, n].
struct Product {
  Shape batch_a, batch_b, batch;
  int64_t m = 1, k = 1, n = 1;
  Shape result;  // as the op gives it
};

// BadInputError: "inner sizes differ: 4 and 5".
absl::StatusOr<Product> ProductOf(const Shape& a, const Shape& b);

// f(matrix of A, matrix of B, matrix of the result) as indices, for each of the batch.
template <typename F>
void ForEachMatrix(const Product& p, F&& f) {
  WalkIndices<3>(p.batch,
                 {BroadcastStrides(p.batch_a, p.batch), BroadcastStrides(p.batch_b, p.batch),
                  DenseStrides(p.batch)},
                 [&](const std::array<int64_t, 3>& at) { f(at[0], at[1], at[2]); });
}

}  // namespace millrace

#endif  // MILLRACE_OPS_PRODUCT_H_
