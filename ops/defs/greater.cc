#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

struct GreaterFn {
  template <typename T, typename C>
  static bool Apply(C a, C b) {
    if constexpr (kIsFloating<T>) {
      return a > b;
    } else {
      return static_cast<T>(a) > static_cast<T>(b);
    }
  }
};

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(c.input(0).shape, c.input(1).shape));
  c.set_output(0, {DType::kBool, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    MapTwo<GreaterFn, typename decltype(tag)::type, bool>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

// Constant but for jumps: zero wherever it has a derivative.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  return absl::OkStatus();
}

}  // namespace

OpDef GreaterOp() {
  return {.name = "Greater",
          .doc = "A > B, broadcast; false where either is NaN",
          .inputs = {{.name = "A", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "B", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "C", .dtypes = {DType::kBool}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = "greater",
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules};
}

}  // namespace millrace
