// Comparisons with broadcasting, and the tests for NaN and infinity. Results are bools; NaN equals
// nothing and is neither less nor greater than anything.
#include <limits>

#include "ops/dtypes.h"
#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/scalar_functions.h"
#include "ops/scalar_program.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

template <auto kCompare>
absl::Status CompareReference(const ReferenceContext& c) {
  return VisitAll(c.inputs[0].dtype(), [&](auto tag) {
    MapPairs<kCompare, typename decltype(tag)::type, bool>(c.inputs[0], c.inputs[1], c.outputs[0]);
    return absl::OkStatus();
  });
}

template <auto kCompare>
OpDef Comparison(std::string name, std::string doc, std::string scalar_op) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "A", .dtypes = NumericTypes(), .same_as = "T"},
                     {.name = "B", .dtypes = NumericTypes(), .same_as = "T"}},
          .outputs = {{.name = "C", .dtypes = {DType::kBool}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = std::move(scalar_op),
          .infer = InferComparison,
          .reference = CompareReference<kCompare>,
          .gradient = ZeroGradient,
          .sharding = ElementwiseRules};
}

absl::Status InferTest(InferContext& c) {
  c.set_output(0, {DType::kBool, c.input(0).shape});
  return absl::OkStatus();
}

// test(double) of each element.
template <typename Test>
absl::Status MapTest(const ReferenceContext& c, Test test) {
  return VisitFloats(c.inputs[0].dtype(), [&](auto tag) {
    MapDoubles<typename decltype(tag)::type, bool>(c.inputs[0], c.outputs[0], test);
    return absl::OkStatus();
  });
}

absl::Status IsNaNReference(const ReferenceContext& c) {
  return MapTest(c, [](double x) { return std::isnan(x); });
}

absl::Status IsInfReference(const ReferenceContext& c) {
  const bool positive = c.attrs.Bool("detect_positive", true);
  const bool negative = c.attrs.Bool("detect_negative", true);
  return MapTest(c, [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

ScalarTerm IsInfFormula(const Attrs& attrs, std::span<const ScalarTerm> x) {
  const bool positive = attrs.Bool("detect_positive", true);
  const bool negative = attrs.Bool("detect_negative", true);
  if (!positive && !negative) return {};
  const ScalarTerm size = positive && negative ? ScalarUnary(ScalarOp::kAbs, x[0]) : x[0];
  const double infinity = std::numeric_limits<double>::infinity();
  return ScalarBinary(ScalarOp::kEqual, size,
                      ScalarConstant(x[0], positive ? infinity : -infinity));
}

OpDef FloatTest(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {{.name = "X", .dtypes = FloatTypes()}},
          .outputs = {{.name = "Y", .dtypes = {DType::kBool}}},
          .fusion = FusionClass::kElementwise,
          .infer = InferTest,
          .gradient = ZeroGradient,
          .sharding = ElementwiseRules};
}

}  // namespace

OpDef EqualOp() {
  OpDef op = Comparison<kEqual>("Equal", "A = B, broadcast", "equal");
  for (OperandSpec& input : op.inputs) input.dtypes = {};  // bools too
  return op;
}

OpDef GreaterOp() { return Comparison<kGreater>("Greater", "A > B, broadcast", "greater"); }

OpDef GreaterOrEqualOp() {
  return Comparison<kGreaterOrEqual>("GreaterOrEqual", "A >= B, broadcast", "greater_equal");
}

OpDef LessOp() { return Comparison<kLess>("Less", "A < B, broadcast", "less"); }

OpDef LessOrEqualOp() {
  return Comparison<kLessOrEqual>("LessOrEqual", "A <= B, broadcast", "less_equal");
}

OpDef IsNaNOp() {
  OpDef op = FloatTest("IsNaN", "Whether X is NaN");
  op.scalar_op = "is_nan";
  op.reference = IsNaNReference;
  return op;
}

OpDef IsInfOp() {
  OpDef op = FloatTest("IsInf", "Whether X is infinite");
  op.tier = 2;
  op.attrs = {{.name = "detect_negative", .kind = AttrKind::kBool, .default_value = true},
              {.name = "detect_positive", .kind = AttrKind::kBool, .default_value = true}};
  op.scalar = IsInfFormula;
  op.reference = IsInfReference;
  return op;
}

}  // namespace millrace
