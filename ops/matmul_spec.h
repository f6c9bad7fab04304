// MatMul and Gemm as one thing: out[batch] = alpha op(A)[batch] op(B)[batch] + beta C, on matrices.
#ifndef MILLRACE_OPS_MATMUL_SPEC_H_
#define MILLRACE_OPS_MATMUL_SPEC_H_

#include <optional>

#include "graph/target.h"

namespace millrace {

struct MatMulSpec {
  int64_t m = 1, k = 1, n = 1;
  // The result's batch dims, and the operands' with 1 where they are repeated; of equal rank.
  // Batches of A that share one B are rows of one matrix: then the batch is empty.
  Shape batch, batch_a, batch_b;
  bool transpose_a = false, transpose_b = false;  // stored [k, m], [n, k]
  float alpha = 1, beta = 1;
  bool has_c = false;
  int64_t c_row_stride = 0, c_column_stride = 0;  // elements; 0: repeated

  double multiply_adds() const {
    double count = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    for (int64_t d : batch) count *= static_cast<double>(d);
    return count;
  }
  // Which of an operand's matrices, its batch dims being `own`, goes into matrix i of the result.
  int64_t MatrixOf(const Shape& own, int64_t i) const;
};

// nullopt for other ops. Takes the types to be consistent (NormalizeQuery).
std::optional<MatMulSpec> MatMulSpecOf(const NodeQuery& query);

}  // namespace millrace

#endif  // MILLRACE_OPS_MATMUL_SPEC_H_
