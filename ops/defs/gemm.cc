// Gemm: Y = alpha A' B' + beta C, with A' and B' transposed where asked, C broadcast to Y.
#include "graph/strings.h"
#include "ops/broadcast.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct Operation {
  int64_t m = 0, k = 0, n = 0;
  bool trans_a = false, trans_b = false;
};

absl::StatusOr<Operation> OperationOf(const Attrs& attrs, const Shape& a, const Shape& b) {
  if (a.rank() != 2 || b.rank() != 2) return BadInputError("A and B must have rank 2");
  Operation op;
  op.trans_a = attrs.Bool("transA", false);
  op.trans_b = attrs.Bool("transB", false);
  op.m = a[op.trans_a ? 1 : 0];
  op.k = a[op.trans_a ? 0 : 1];
  op.n = b[op.trans_b ? 0 : 1];
  const int64_t k_of_b = b[op.trans_b ? 1 : 0];
  if (op.k != k_of_b) return BadInputError(StrCat("inner sizes differ: ", op.k, " and ", k_of_b));
  return op;
}

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Operation op,
                            OperationOf(c.attrs(), c.input(0).shape, c.input(1).shape));
  const Shape shape{op.m, op.n};
  if (c.has_input(2)) {
    const absl::StatusOr<Shape> with_c = BroadcastShapes(shape, c.input(2).shape);
    if (!with_c.ok() || *with_c != shape) {
      return BadInputError(
          StrCat("C, ", ToString(c.input(2).shape), ", does not broadcast to ", ToString(shape)));
    }
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Operation op,
                            OperationOf(c.attrs, c.inputs[0].shape(), c.inputs[1].shape()));
  const double alpha = c.attrs.Float("alpha", 1), beta = c.attrs.Float("beta", 1);
  const Tensor* add = c.inputs.size() > 2 && c.inputs[2].has_data() ? &c.inputs[2] : nullptr;
  const Shape add_strides =
      add == nullptr ? Shape{0, 0} : BroadcastStrides(add->shape(), c.outputs[0].shape());
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* a = c.inputs[0].data<T>().data();
    const T* b = c.inputs[1].data<T>().data();
    const T* plus = add == nullptr ? nullptr : add->data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    for (int64_t i = 0; i < op.m; ++i) {
      for (int64_t j = 0; j < op.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < op.k; ++l) {
          sum += static_cast<double>(a[op.trans_a ? l * op.m + i : i * op.k + l]) *
                 static_cast<double>(b[op.trans_b ? j * op.k + l : l * op.n + j]);
        }
        sum *= alpha;
        if (plus != nullptr) {
          sum += beta * static_cast<double>(plus[i * add_strides[0] + j * add_strides[1]]);
        }
        y[i * op.n + j] = Narrow<T>(sum);
      }
    }
    return absl::OkStatus();
  });
}

Work GemmWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const bool trans_a = query.attrs.Bool("transA", false);
  const double outputs = static_cast<double>(NumElements(query.outputs[0]->shape));
  work.flops = 2 * outputs * static_cast<double>(query.inputs[0]->shape[trans_a ? 0 : 1]);
  if (query.inputs.size() > 2 && query.inputs[2].has_value()) work.flops += outputs;
  return work;
}

Term Scaled(const Term& x, double factor) { return factor == 1 ? x : x * factor; }

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term a = f.input(0), b = f.input(1), dy = f.output_grad(0);
  const double alpha = f.attrs().Float("alpha", 1), beta = f.attrs().Float("beta", 1);
  const bool trans_a = f.attrs().Bool("transA", false), trans_b = f.attrs().Bool("transB", false);
  // x' y' as a Gemm of its own, without C.
  const auto product = [&](const Term& x, bool trans_x, const Term& y, bool trans_y) {
    Attrs attrs;
    attrs.Set("alpha", alpha);
    attrs.Set("transA", trans_x);
    attrs.Set("transB", trans_y);
    return Apply("Gemm", {x, y}, std::move(attrs));
  };
  if (f.wants(0)) {
    f.set_grad(0, trans_a ? product(b, trans_b, dy, true) : product(dy, false, b, !trans_b));
  }
  if (f.wants(1)) {
    f.set_grad(1, trans_b ? product(dy, true, a, trans_a) : product(a, !trans_a, dy, false));
  }
  if (f.wants(2)) {
    f.set_grad(2, SumTo(Scaled(dy, beta), f.output_type(0).shape, f.input_type(2).shape));
  }
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& y = query.outputs[0]->shape;
  const int row_a = query.attrs.Bool("transA", false) ? 1 : 0;
  const int col_b = query.attrs.Bool("transB", false) ? 0 : 1;
  const bool has_c = query.inputs.size() > 2 && query.inputs[2].has_value();
  // What cutting dim d of Y does to C: the same, unless C is repeated along it.
  const auto cut_c = [&](int d) {
    const Shape& shape = query.inputs[2]->shape;
    const int own = d - (2 - shape.rank());
    return own >= 0 && shape[own] == y[d] ? ShardDim(own) : Replicate();
  };
  const auto add = [&](std::string_view note, AxisSharding a, AxisSharding b, AxisSharding with_c,
                       AxisSharding out) {
    ShardingRule rule = ReplicateAll(query, note);
    rule.inputs[0] = a;
    rule.inputs[1] = b;
    if (has_c) rule.inputs[2] = with_c;
    rule.outputs[0] = out;
    rules.push_back(std::move(rule));
  };
  if (Divisible(y, 0)) {
    add("split rows", ShardDim(row_a), Replicate(), has_c ? cut_c(0) : Replicate(), ShardDim(0));
  }
  if (Divisible(y, 1)) {
    add("split output features", Replicate(), ShardDim(col_b), has_c ? cut_c(1) : Replicate(),
        ShardDim(1));
  }
  const AxisSharding sum = Partial(Reduction::kSum), mean = Partial(Reduction::kMean);
  if (Divisible(query.inputs[0]->shape, 1 - row_a)) {
    add("split the inner dim", ShardDim(1 - row_a), ShardDim(1 - col_b), sum, sum);
  }
  // C counts once in a sum of the devices' results, and fully in their mean.
  add("pass partial sum of A through", sum, Replicate(), sum, sum);
  add("pass partial sum of B through", Replicate(), sum, sum, sum);
  add("pass partial mean of A through", mean, Replicate(), Replicate(), mean);
  add("pass partial mean of B through", Replicate(), mean, Replicate(), mean);
  return rules;
}

AttrSpec Flag(std::string name, std::string doc) {
  return {.name = std::move(name),
          .kind = AttrKind::kBool,
          .default_value = false,
          .doc = std::move(doc)};
}

}  // namespace

OpDef GemmOp() {
  return {.name = "Gemm",
          .doc = "alpha * A * B + beta * C, for matrices",
          .inputs = {{.name = "A", .dtypes = FloatTypes(), .same_as = "T", .doc = "[M,K]"},
                     {.name = "B", .dtypes = FloatTypes(), .same_as = "T", .doc = "[K,N]"},
                     {.name = "C",
                      .dtypes = FloatTypes(),
                      .optional = true,
                      .same_as = "T",
                      .doc = "broadcast to [M,N]"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .attrs = {{.name = "alpha", .kind = AttrKind::kFloat, .default_value = 1.0},
                    {.name = "beta", .kind = AttrKind::kFloat, .default_value = 1.0},
                    Flag("transA", "A is [K,M]"),
                    Flag("transB", "B is [N,K]")},
          .fusion = FusionClass::kContraction,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = GemmWork};
}

}  // namespace millrace
