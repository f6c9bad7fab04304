#include <algorithm>
#include <limits>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const TensorType& type = c.input(0);
  MILLRACE_RETURN_IF_ERROR(NormalizeAxis(c.attrs().Int("axis", -1), type.shape.rank()).status());
  c.set_output(0, type);
  return absl::OkStatus();
}

// Reads each row before it writes it, so the result may lie on the input.
template <typename T>
void Softmax(const T* x, T* y, const AxisView& view) {
  for (int64_t row = 0; row < view.outer * view.inner; ++row) {
    const int64_t start = row / view.inner * view.size * view.inner + row % view.inner;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < view.size; ++i) {
      largest = std::max(largest, static_cast<double>(x[start + i * view.inner]));
    }
    for (int64_t i = 0; i < view.size; ++i) {
      sum += std::exp(static_cast<double>(x[start + i * view.inner]) - largest);
    }
    for (int64_t i = 0; i < view.size; ++i) {
      const int64_t at = start + i * view.inner;
      y[at] = Narrow<T>(std::exp(static_cast<double>(x[at]) - largest) / sum);
    }
  }
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", -1), shape.rank()));
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Softmax(c.inputs[0].data<T>().data(), c.outputs[0].mutable_data<T>().data(),
            ViewAround(shape, axis));
    return absl::OkStatus();
  });
}

// dx = y * (dy - sum(dy * y)).
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Term y = f.output(0), dy = f.output_grad(0);
  const int64_t axis = f.attrs().Int("axis", -1);
  f.set_grad(0, y * (dy - Sum(dy * y, {&axis, 1}, /*keep=*/true)));
  return absl::OkStatus();
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

}  // namespace

OpDef SoftmaxOp() {
  return {.name = "Softmax",
          .doc = "exp(X) divided by its sum along an axis",
          .inputs = {{.name = "input", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "axis",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{-1},
                     .doc = "the axis whose elements sum to 1"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules,
          .work = SoftmaxWork};
}

}  // namespace millrace
