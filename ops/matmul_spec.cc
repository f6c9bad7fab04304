#include "ops/matmul_spec.h"

#include <algorithm>

#include "ops/broadcast.h"
#include "ops/kernel_query.h"

namespace millrace {
namespace {

// The first dims of `shape`, padded with ones in front to `rank`.
Shape PaddedBatch(const Shape& shape, int rank) {
  const int own = std::max(0, shape.rank() - 2);
  Shape batch;
  for (int d = 0; d < rank; ++d) batch.push_back(d < rank - own ? 1 : shape[d - (rank - own)]);
  return batch;
}

MatMulSpec OfMatMul(const NodeQuery& query) {
  const Shape &a = query.inputs[0]->shape, &b = query.inputs[1]->shape;
  MatMulSpec spec;
  spec.k = a[a.rank() - 1];
  if (a.rank() > 1) spec.m = a[a.rank() - 2];
  if (b.rank() > 1) spec.n = b[b.rank() - 1];
  const int rank = std::max({a.rank(), b.rank(), 2}) - 2;
  spec.batch_a = PaddedBatch(a, rank);
  spec.batch_b = PaddedBatch(b, rank);
  for (int d = 0; d < rank; ++d) {
    spec.batch.push_back(spec.batch_a[d] == 1 ? spec.batch_b[d] : spec.batch_a[d]);
  }
  const bool one_b =
      std::all_of(spec.batch_b.begin(), spec.batch_b.end(), [](int64_t size) { return size == 1; });
  if (one_b) {
    spec.m *= NumElements(spec.batch_a);
    spec.batch = spec.batch_a = spec.batch_b = Shape();
  }
  return spec;
}

MatMulSpec OfGemm(const NodeQuery& query) {
  const Shape &a = query.inputs[0]->shape, &out = query.outputs[0]->shape;
  MatMulSpec spec;
  spec.transpose_a = query.attrs.Bool("transA", false);
  spec.transpose_b = query.attrs.Bool("transB", false);
  spec.m = out[0];
  spec.n = out[1];
  spec.k = a[spec.transpose_a ? 0 : 1];
  spec.alpha = static_cast<float>(query.attrs.Float("alpha", 1));
  spec.beta = static_cast<float>(query.attrs.Float("beta", 1));
  spec.has_c = HasInput(query, 2) && spec.beta != 0;
  if (spec.has_c) {
    const Shape strides = BroadcastStrides(query.inputs[2]->shape, out);
    spec.c_row_stride = strides[0];
    spec.c_column_stride = strides[1];
  }
  return spec;
}

}  // namespace

int64_t MatMulSpec::MatrixOf(const Shape& own, int64_t i) const {
  int64_t index = 0, stride = 1;
  for (int d = own.rank(); d-- > 0;) {
    if (own[d] != 1) index += i % batch[d] * stride;
    stride *= own[d];
    i /= batch[d];
  }
  return index;
}

std::optional<MatMulSpec> MatMulSpecOf(const NodeQuery& query) {
  if (query.op == "MatMul" && HasOutput(query, 0)) return OfMatMul(query);
  if (query.op == "Gemm" && HasOutput(query, 0)) return OfGemm(query);
  return std::nullopt;
}

}  // namespace millrace
