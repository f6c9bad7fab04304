// LpNormalization: X divided by its 1- or 2-norm along an axis; 0 where the norm is 0.
#include <cmath>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const TensorType& x = c.input(0);
  MILLRACE_RETURN_IF_ERROR(NormalizeAxis(c.attrs().Int("axis", -1), x.shape.rank()).status());
  const int64_t p = c.attrs().Int("p", 2);
  if (p != 1 && p != 2) return BadInputError(StrCat("'p' is ", p, ", known are 1 and 2"));
  c.set_output(0, x);
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& shape = c.inputs[0].shape();
  MILLRACE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attrs.Int("axis", -1), shape.rank()));
  const bool squares = c.attrs.Int("p", 2) == 2;
  const AxisView view = ViewAround(shape, axis);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = c.inputs[0].data<T>().data();
    T* y = c.outputs[0].mutable_data<T>().data();
    for (int64_t row = 0; row < view.outer * view.inner; ++row) {
      const int64_t start = row / view.inner * view.size * view.inner + row % view.inner;
      double norm = 0;
      for (int64_t i = 0; i < view.size; ++i) {
        const auto e = static_cast<double>(x[start + i * view.inner]);
        norm += squares ? e * e : std::abs(e);
      }
      if (squares) norm = std::sqrt(norm);
      for (int64_t i = 0; i < view.size; ++i) {
        const int64_t at = start + i * view.inner;
        y[at] = Narrow<T>(norm == 0 ? 0.0 : static_cast<double>(x[at]) / norm);
      }
    }
    return absl::OkStatus();
  });
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  const absl::StatusOr<int> axis =
      NormalizeAxis(query.attrs.Int("axis", -1), query.inputs[0]->shape.rank());
  if (!axis.ok()) return {};
  return ElementwiseRulesExcept(query, {&*axis, 1});
}

}  // namespace

OpDef LpNormalizationOp() {
  return {.name = "LpNormalization",
          .doc = "X divided by its norm along an axis",
          .tier = 2,
          .inputs = {{.name = "input", .dtypes = FloatTypes(), .same_as = "T"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .attrs = {{.name = "axis", .kind = AttrKind::kInt, .default_value = int64_t{-1}},
                    {.name = "p",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{2},
                     .doc = "1: sum of magnitudes, 2: Euclidean"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kReduction,
          .infer = Infer,
          .reference = Reference,
          .sharding = Rules};
}

}  // namespace millrace
