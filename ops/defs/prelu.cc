#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &slope = c.input(1).shape;
  MILLRACE_ASSIGN_OR_RETURN(const Shape both, BroadcastShapes(x, slope));
  if (both != x) {
    return BadInputError(
        StrCat("'slope' of ", ToString(slope), " does not broadcast to X, ", ToString(x)));
  }
  return InferLikeInput(c);
}

absl::Status Reference(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kPRelu, T, T>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term x = f.input(0), slope = f.input(1), dy = f.output_grad(0);
  const Term negative = x < 0;
  if (f.wants(0)) f.set_grad(0, dy * Select(negative, slope, Scalar(x, 1)));
  if (f.wants(1)) {
    const Term grad = Select(negative, dy * x, Scalar(dy, 0));
    f.set_grad(1, SumTo(grad, f.output_type(0).shape, f.input_type(1).shape));
  }
  return absl::OkStatus();
}

ScalarTerm Formula(const Attrs&, std::span<const ScalarTerm> x) {
  return Select(x[0] < 0, x[0] * x[1], x[0]);
}

}  // namespace

OpDef PReluOp() {
  return {.name = "PRelu",
          .doc = "slope * X below zero, X above",
          .inputs = {{.name = "X", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "slope",
                      .dtypes = NumericTypes(),
                      .same_as = "T",
                      .doc = "broadcasts to X"}},
          .outputs = {{.name = "Y", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}, {0, 1}}},
          .fusion = FusionClass::kElementwise,
          .scalar = Formula,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules};
}

}  // namespace millrace
