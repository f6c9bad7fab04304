// Determinants of the matrices in the last two dims, by Gaussian elimination in f64 with the
// largest pivot of each column.
#include <cmath>

#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape& x = c.input(0).shape;
  if (x.rank() < 2 || x[x.rank() - 1] != x[x.rank() - 2]) {
    return BadInputError(StrCat("the last two dims must be those of a square, not ", ToString(x)));
  }
  c.set_output(0, {c.input(0).dtype, Shape(x.dims().first(x.rank() - 2))});
  return absl::OkStatus();
}

// Destroys the n x n matrix. The determinant of an empty one is 1.
double Determinant(std::vector<double>& m, int64_t n) {
  double determinant = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(m[i * n + k]) > std::abs(m[pivot * n + k])) pivot = i;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m.begin() + k * n, m.begin() + (k + 1) * n, m.begin() + pivot * n);
      determinant = -determinant;
    }
    determinant *= m[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return determinant;
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  const int64_t n = shape[shape.rank() - 1];
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    std::vector<double> matrix(n * n);
    for (T& result : c.outputs[0].mutable_data<T>()) {
      for (double& element : matrix) element = static_cast<double>(*x++);
      result = Narrow<T>(Determinant(matrix, n));
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& batch = query.outputs[0]->shape;
  for (int d = 0; d < batch.rank(); ++d) {
    if (!Divisible(batch, d)) continue;
    rules.push_back({{ShardDim(d)}, {ShardDim(d)}, StrCat("split dim ", d)});
  }
  return rules;
}

Work DetWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& x = query.inputs[0]->shape;
  work.flops = 2.0 / 3 * static_cast<double>(NumElements(x)) * static_cast<double>(x[x.rank() - 1]);
  return work;
}

}  // namespace

OpDef DetOp() {
  return {.name = "Det",
          .doc = "Determinants of the square matrices in the last two dims",
          .tier = 2,
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .infer = Infer,
          .reference = Reference,
          .sharding = Rules,
          .work = DetWork};
}

}  // namespace millrace
