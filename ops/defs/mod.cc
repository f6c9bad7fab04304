// Mod: the remainder of a division. With fmod it has the sign of A, as in C; without, of integers
// only, the sign of B, as in Python. Modulo zero an integer gives 0.
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  if (IsFloat(c.input(0).dtype) && !c.attrs().Bool("fmod", false)) {
    return BadInputError("floats need 'fmod' to be 1");
  }
  return InferBroadcast(c);
}

struct SignOfA {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0) return 0;
      if (std::is_signed_v<T> && b == T(-1)) return 0;  // the most negative one would overflow
      return static_cast<T>(a % b);
    }
  }
};

struct SignOfB {
  template <typename T>
  static T Apply(T a, T b) {
    const T rest = SignOfA::Apply(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};

template <typename F>
absl::Status Map(const ReferenceContext& c) {
  return VisitNumeric(c.inputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr auto kFunction = [](auto a, auto b) { return F::Apply(a, b); };
    MapPairs<kFunction, T, T>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

absl::Status Reference(const ReferenceContext& c) {
  return c.attrs.Bool("fmod", false) ? Map<SignOfA>(c) : Map<SignOfB>(c);
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
