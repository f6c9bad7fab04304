// Mod: the remainder of a division. With fmod it has the sign of A, as in C; without, of integers
// only, the sign of B, as in Python. Modulo zero an integer gives 0.
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  if (IsFloat(c.input(0).dtype) && !c.attrs().Bool("fmod", false)) {
    return BadInputError("floats need 'fmod' to be 1");
  }
  return InferBroadcast(c);
}

template <auto kFunction>
absl::Status Map(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapPairs<kFunction, T, T>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status Reference(const ReferenceContext& c) {
  return c.attrs.Bool("fmod", false) ? Map<kRemainder>(c) : Map<kModulo>(c);
}

// a - q b, where the quotient q is a whole number: constant between jumps.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term dy = f.output_grad(0);
  const Shape& shape = f.output_type(0).shape;
  if (f.wants(0)) f.set_grad(0, SumTo(dy, shape, f.input_type(0).shape));
  if (f.wants(1)) {
    const Term quotient = Apply("Round", {(f.input(0) - f.output(0)) / f.input(1)});
    f.set_grad(1, SumTo(-(dy * quotient), shape, f.input_type(1).shape));
  }
  return absl::OkStatus();
}

}  // namespace

OpDef ModOp() {
  return {.name = "Mod",
          .doc = "The remainder of A / B, broadcast; modulo 0 an integer gives 0",
          .tier = 2,
          .inputs = {{.name = "A", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "B", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "C", .same_as = "T"}},
          .attrs = {{.name = "fmod",
                     .kind = AttrKind::kBool,
                     .default_value = false,
                     .doc = "the result has the sign of A, not of B"}},
          .traits = {.in_place = {{0, 0}, {0, 1}}},
          .fusion = FusionClass::kElementwise,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules};
}

}  // namespace millrace
