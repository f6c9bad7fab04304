// Pow: the base and the result have one type, the exponent may have another. Of integers to integer
// powers it is exact and wraps around; a negative power of an integer is 1 / X^n truncated (of 0,
// which has none, 0). Everything else is computed in f64.
#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

// By squaring, modulo 2^64.
uint64_t NaturalPower(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

template <typename T>
T IntegerPower(T base, int64_t exponent, bool negative) {
  if (!negative) {
    return static_cast<T>(
        NaturalPower(static_cast<uint64_t>(base), static_cast<uint64_t>(exponent)));
  }
  if (base == 1) return 1;
  if (std::is_signed_v<T> && base == T(-1)) return (exponent & 1) != 0 ? base : T(1);
  return 0;
}

// power(base, index into the exponent).
template <typename T, typename F>
void MapPowers(const Tensor& base, const Tensor& exponent, Tensor& out, F&& power) {
  const T* x = base.data<T>().data();
  T* to = out.mutable_data<T>().data();
  const Shape& space = out.shape();
  WalkIndices<3>(space,
                 {BroadcastStrides(base.shape(), space), BroadcastStrides(exponent.shape(), space),
                  DenseStrides(space)},
                 [&](const std::array<int64_t, 3>& at) { to[at[2]] = power(x[at[0]], at[1]); });
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor &base = c.inputs[0], &exponent = c.inputs[1];
  return VisitNumeric(base.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      if (!IsFloat(exponent.dtype())) {
        const bool has_signs = IsSigned(exponent.dtype());
        MapPowers<T>(base, exponent, c.outputs[0], [&](T x, int64_t at) {
          const int64_t n = exponent.AsInt64(at);
          return IntegerPower(x, n, has_signs && n < 0);
        });
        return absl::OkStatus();
      }
    }
    MapPowers<T>(base, exponent, c.outputs[0], [&](T x, int64_t at) {
      return ConvertTo<T>(std::pow(static_cast<double>(x), exponent.AsDouble(at)));
    });
    return absl::OkStatus();
  });
}

// d(x^n) = n x^(n-1) dx + x^n log(x) dn, where 0 times infinity is 0: x^0 is constant in x, and 0^n
// in n.
absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term x = f.input(0), y = f.output(0), dy = f.output_grad(0);
  const Shape& shape = f.output_type(0).shape;
  const Term zero = Scalar(x, 0), one = Scalar(x, 1);
  const Term n = CastTo(f.input(1), x.dtype);
  if (f.wants(0)) {
    const Term slope = Select(EqualTo(n, 0), zero, n * Apply("Pow", {x, n - 1}));
    f.set_grad(0, SumTo(dy * slope, shape, f.input_type(0).shape));
  }
  if (f.wants(1) && IsFloat(f.input_type(1).dtype)) {
    const Term slope = y * Apply("Log", {Select(EqualTo(x, 0), one, x)});
    const Term grad = SumTo(dy * slope, shape, f.input_type(1).shape);
    f.set_grad(1, CastTo(grad, f.input(1).dtype));
  }
  return absl::OkStatus();
}

}  // namespace

OpDef PowOp() {
  return {.name = "Pow",
          .doc = "X to the power Y, broadcast",
          .inputs = {{.name = "X", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "Y", .dtypes = NumericTypes()}},
          .outputs = {{.name = "Z", .same_as = "T"}},
          .traits = {.in_place = {{0, 0}, {0, 1}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = "pow",
          .infer = InferBroadcast,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules};
}

}  // namespace millrace
