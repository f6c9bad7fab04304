// MatMul as numpy's: matrices in the last two dims, batch dims broadcast; a rank-1 A is a row, a
// rank-1 B a column, and that dim is absent from the result.
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/product.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(c.input(0).shape, c.input(1).shape));
  c.set_output(0, {c.input(0).dtype, p.result});
  return absl::OkStatus();
}

// One [m, k] x [k, n] product; a row of sums is kept so that B is read along its rows.
template <typename T>
void Multiply(const Product& p, const T* a, const T* b, T* out) {
  std::vector<SumType<T>> sums(p.n);
  for (int64_t i = 0; i < p.m; ++i) {
    std::fill(sums.begin(), sums.end(), SumType<T>(0));
    for (int64_t l = 0; l < p.k; ++l) {
      const SumType<T> x = static_cast<SumType<T>>(a[i * p.k + l]);
      for (int64_t j = 0; j < p.n; ++j) sums[j] += x * static_cast<SumType<T>>(b[l * p.n + j]);
    }
    for (int64_t j = 0; j < p.n; ++j) out[i * p.n + j] = Narrow<T>(sums[j]);
  }
}

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(c.inputs[0].shape(), c.inputs[1].shape()));
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* a = c.inputs[0].data<T>().data();
    const T* b = c.inputs[1].data<T>().data();
    T* out = c.outputs[0].mutable_data<T>().data();
    ForEachMatrix(p, [&](int64_t of_a, int64_t of_b, int64_t of_out) {
      Multiply<T>(p, a + of_a * p.m * p.k, b + of_b * p.k * p.n, out + of_out * p.m * p.n);
    });
    return absl::OkStatus();
  });
}

Work MatMulWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& a = query.inputs[0]->shape;
  work.flops = 2.0 * static_cast<double>(NumElements(query.outputs[0]->shape)) *
               static_cast<double>(a[a.rank() - 1]);
  return work;
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const Shape &a = query.inputs[0]->shape, &b = query.inputs[1]->shape;
  const Shape& y = query.outputs[0]->shape;
  const int rank_of_batch = std::max({a.rank(), b.rank(), 2}) - 2;
  std::vector<ShardingRule> rules;
  const auto add = [&](std::string note, AxisSharding in_a, AxisSharding in_b, AxisSharding out) {
    rules.push_back({{in_a, in_b}, {out}, std::move(note)});
  };
  for (int d = 0; d < rank_of_batch; ++d) {
    if (!Divisible(y, d)) continue;
    const int da = d - (rank_of_batch - (a.rank() - 2)), db = d - (rank_of_batch - (b.rank() - 2));
    const bool in_a = a.rank() > 2 && da >= 0 && a[da] == y[d];
    const bool in_b = b.rank() > 2 && db >= 0 && b[db] == y[d];
    add(StrCat("split batch dim ", d), in_a ? ShardDim(da) : Replicate(),
        in_b ? ShardDim(db) : Replicate(), ShardDim(d));
  }
  const int row_dim = a.rank() - 2, inner_dim_b = std::max(0, b.rank() - 2);
  if (a.rank() > 1 && Divisible(a, row_dim)) {
    add("split rows", ShardDim(row_dim), Replicate(), ShardDim(rank_of_batch));
  }
  if (b.rank() > 1 && Divisible(b, b.rank() - 1)) {
    add("split output features", Replicate(), ShardDim(b.rank() - 1), ShardDim(y.rank() - 1));
  }
  if (Divisible(a, a.rank() - 1)) {
    add("split the inner dim", ShardDim(a.rank() - 1), ShardDim(inner_dim_b),
        Partial(Reduction::kSum));
  }
  AddPartialRules(query, 0, kLinearReductions, rules);
  AddPartialRules(query, 1, kLinearReductions, rules);
  return rules;
}

// Rows of all batches in one matrix: [batch..., m, k] -> [batch * m, k].
Term FlattenRows(const Term& x, const Shape& shape) {
  const int64_t cols = shape[shape.rank() - 1];
  return Reshape(x, {NumElements(Leading(shape, 1)), cols});
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  Shape a = f.input_type(0).shape, b = f.input_type(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Product p, ProductOf(a, b));
  // From here on both are matrices, and dy is [batch..., m, n].
  Term x = f.input(0), w = f.input(1), dy = f.output_grad(0);
  Shape y = p.batch;
  y.push_back(p.m);
  y.push_back(p.n);
  if (a.rank() == 1 || b.rank() == 1) dy = Reshape(dy, y);
  if (a.rank() == 1) x = Reshape(x, a = {1, p.k});
  if (b.rank() == 1) w = Reshape(w, b = {p.k, 1});

  if (f.wants(0)) {
    Shape full = p.batch;
    full.push_back(p.m);
    full.push_back(p.k);
    Term dx = SumTo(Apply("MatMul", {dy, SwapLastDims(w, b.rank())}), full, a);
    f.set_grad(0, a == f.input_type(0).shape ? dx : Reshape(dx, f.input_type(0).shape));
  }
  if (f.wants(1)) {
    Term dw;
    const bool has_rows = CheckedNumElements(Leading(y, 1)).has_value();  // no overflow beside a 0
    if (b.rank() == 2 && a.rank() > 2 && has_rows) {
      // One product over all rows, and nothing left to sum.
      dw = Apply("MatMul", {SwapLastDims(FlattenRows(x, a), 2), FlattenRows(dy, y)});
    } else {
      Shape full = p.batch;
      full.push_back(p.k);
      full.push_back(p.n);
      dw = SumTo(Apply("MatMul", {SwapLastDims(x, a.rank()), dy}), full, b);
    }
    f.set_grad(1, b == f.input_type(1).shape ? dw : Reshape(dw, f.input_type(1).shape));
  }
  return absl::OkStatus();
}

}  // namespace

OpDef MatMulOp() {
  return {.name = "MatMul",
          .doc = "Matrix product of A and B, batched over leading dims",
          .inputs = {{.name = "A", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "B", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .fusion = FusionClass::kContraction,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = MatMulWork};
}

}  // namespace millrace
