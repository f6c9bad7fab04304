#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_program.h"

namespace millrace {
namespace {

// NaN stays NaN.
absl::Status Reference(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::span<const T> x = c.inputs[0].data<T>();
    const std::span<T> y = c.outputs[0].mutable_data<T>();
    for (size_t i = 0; i < y.size(); ++i) {
      using Wide = std::conditional_t<kIsHalf<T>, float, T>;
      y[i] = static_cast<Wide>(x[i]) < Wide(0) ? T(Wide(0)) : x[i];
    }
    return absl::OkStatus();
  });
}

// At 0 the gradient is 0.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term dy = f.output_grad(0);
  if (f.wants(0)) f.set_grad(0, Select(0 < f.output(0), dy, Scalar(dy, 0)));
  return absl::OkStatus();
}

ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
  return Select(x[0] < 0, ScalarConstant(x[0], 0), x[0]);
}

}  // namespace

OpDef ReluOp() {
  return {.name = "Relu",
          .doc = "max(X, 0)",
          .inputs = {{.name = "X", .dtypes = SignedTypes(), .same_as = "T"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}}},
          .fusion = FusionClass::kElementwise,
          .scalar = Formula,
          .infer = InferLikeInput,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = MonotoneRules};
}

}  // namespace millrace
