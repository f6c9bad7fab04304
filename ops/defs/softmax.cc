// Softmax and LogSoftmax along an axis, and Hardmax: 1 at the first largest element, else 0.
#include <algorithm>
#include <limits>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/ordering.h"
#include "ops/reference_dispatch.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const TensorType& type = c.input(0);
  MILLRACE_RETURN_IF_ERROR(NormalizeAxis(c.attrs().Int("axis", -1), type.shape.rank()).status());
  c.set_output(0, type);
  return absl::OkStatus();
}

// One row: `size` elements, `stride` apart. The result may lie on the input.
template <typename T>
struct Row {
  const T* x;
  T* y;
  int64_t size, stride;

  double at(int64_t i) const { return static_cast<double>(x[i * stride]); }
  void set(int64_t i, double value) const { y[i * stride] = Narrow<T>(value); }
};

template <typename T>
double LargestOf(const Row<T>& row) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < row.size; ++i) largest = std::max(largest, row.at(i));
  return largest;
}

// Of exponentials relative to the largest, so that none overflows.
template <typename T>
double SumOfExponentials(const Row<T>& row, double largest) {
  double sum = 0;
  for (int64_t i = 0; i < row.size; ++i) sum += std::exp(row.at(i) - largest);
  return sum;
}

constexpr auto kSoftmax = [](const auto& row) {
  const double largest = LargestOf(row), sum = SumOfExponentials(row, largest);
  for (int64_t i = 0; i < row.size; ++i) row.set(i, std::exp(row.at(i) - largest) / sum);
};

constexpr auto kLogSoftmax = [](const auto& row) {
  const double largest = LargestOf(row), log_sum = std::log(SumOfExponentials(row, largest));
  for (int64_t i = 0; i < row.size; ++i) row.set(i, row.at(i) - largest - log_sum);
};

constexpr auto kHardmax = [](const auto& row) {
  int64_t first = 0;
  for (int64_t i = 1; i < row.size; ++i) {
    if (kLargerFirst(row.at(i), row.at(first))) first = i;
  }
  for (int64_t i = 0; i < row.size; ++i) row.set(i, i == first ? 1 : 0);
};

template <auto kOfRow>
absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", -1), shape.rank()));
  const AxisView view = ViewAround(shape, axis);
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    for (int64_t row = 0; row < view.outer * view.inner; ++row) {
      const int64_t start = row / view.inner * view.size * view.inner + row % view.inner;
      kOfRow(Row<T>{x + start, y + start, view.size, view.inner});
    }
    return absl::OkStatus();
  });
}

// dx = y * (dy - sum(dy * y)).
absl::Status SoftmaxGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term y = f.output(0), dy = f.output_grad(0);
  const int64_t axis = f.attrs().Int("axis", -1);
  f.set_grad(0, y * (dy - Sum(dy * y, {&axis, 1}, /*keep=*/true)));
  return absl::OkStatus();
}

// dx = dy - exp(y) * sum(dy).
absl::Status LogSoftmaxGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term dy = f.output_grad(0);
  const int64_t axis = f.attrs().Int("axis", -1);
  f.set_grad(0, dy - Apply("Exp", {f.output(0)}) * Sum(dy, {&axis, 1}, /*keep=*/true));
  return absl::OkStatus();
}

struct SoftmaxForm {
  static ScalarTerm Of(const ScalarTerm& x) {
    const ScalarTerm e = ScalarUnary(ScalarOp::kExp, x - RowMax(x));
    return e * ScalarUnary(ScalarOp::kReciprocal, RowSum(e));
  }
};
struct LogSoftmaxForm {
  static ScalarTerm Of(const ScalarTerm& x) {
    const ScalarTerm shifted = x - RowMax(x);
    const ScalarTerm sum = RowSum(ScalarUnary(ScalarOp::kExp, shifted));
    return shifted - ScalarUnary(ScalarOp::kLog, sum);
  }
};

template <typename F>
std::optional<RowForm> FormOf(const NodeQuery& query, std::span<const ScalarTerm> x) {
  const auto axis = NormalizeAxis(query.attrs.Int("axis", -1), query.inputs[0]->shape.rank());
  if (!axis.ok()) return std::nullopt;
  return RowForm{{*axis}, F::Of(x[0])};
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const int rank = query.inputs[0]->shape.rank();
  const absl::StatusOr<int> axis = NormalizeAxis(query.attrs.Int("axis", -1), rank);
  if (!axis.ok()) return {};
  return ElementwiseRulesExcept(query, {&*axis, 1});
}

// For each element: compare, subtract, exp, add, divide.
Work SoftmaxWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops *= 5;
  return work;
}

OpDef OfRows(std::string name, std::string doc, ReferenceFn reference, GradientFn gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "input", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{-1},
                     .doc = "the axis of a row"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = reference,
          .gradient = gradient,
          .sharding = Rules,
          .work = SoftmaxWork};
}

}  // namespace

OpDef SoftmaxOp() {
  OpDef op = OfRows("Softmax", "exp(X) divided by its sum along an axis", Reference<kSoftmax>,
                    SoftmaxGradient);
  op.row = FormOf<SoftmaxForm>;
  return op;
}

OpDef LogSoftmaxOp() {
  OpDef op = OfRows("LogSoftmax", "The logarithm of Softmax along an axis", Reference<kLogSoftmax>,
                    LogSoftmaxGradient);
  op.row = FormOf<LogSoftmaxForm>;
  return op;
}

OpDef HardmaxOp() {
  OpDef op = OfRows("Hardmax", "1 at the first largest element along an axis, else 0",
                    Reference<kHardmax>, ZeroGradient);
  op.tier = 2;
  return op;
}

}  // namespace millrace
