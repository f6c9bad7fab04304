// Max, Min, Sum and Mean of any number of operands, with broadcasting. NaN in any operand of Max or
// Min gives NaN.
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
  Shape shape = c.input(0).shape;
  for (int i = 1; i < c.num_inputs(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, c.input(i).shape));
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// The operands combined from the first to the last in a copy, so the result may lie on any of them.
// combine(so far, element), on elements widened to Wide.
template <typename T, typename Wide, typename F>
std::vector<Wide> Combined(const ReferenceContext& c, F&& combine) {
  const Shape& space = c.outputs[0].shape();
  std::vector<Wide> result(c.outputs[0].num_elements());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const T* x = c.inputs[i].data<T>().data();
    WalkIndices<2>(space, {BroadcastStrides(c.inputs[i].shape(), space), DenseStrides(space)},
                   [&](const std::array<int64_t, 2>& at) {
                     const auto element = static_cast<Wide>(x[at[0]]);
                     Wide& to = result[at[1]];
                     to = i == 0 ? element : combine(to, element);
                   });
  }
  return result;
}

template <auto kPick>
absl::Status ExtremumReference(const ReferenceContext& c) {
  return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<NativeType<T>> chosen = Combined<T, NativeType<T>>(c, kPick);
    const std::span<T> to = c.outputs[0].mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(chosen[i]);
    return absl::OkStatus();
  });
}

absl::Status SumReference(const ReferenceContext& c, double divisor) {
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto sums = Combined<T, double>(c, [](double a, double b) { return a + b; });
    const std::span<T> to = c.outputs[0].mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Narrow<T>(sums[i] / divisor);
    return absl::OkStatus();
  });
}

absl::Status Sum(const ReferenceContext& c) { return SumReference(c, 1); }
absl::Status Mean(const ReferenceContext& c) {
  return SumReference(c, static_cast<double>(c.inputs.size()));
}

// The gradient goes to the operands that are equal to the result, in equal parts.
absl::Status ExtremumGradient(GradientContext& c) {
  Forward f(c);
  const Term y = f.output(0), dy = f.output_grad(0);
  const Shape& shape = f.output_type(0).shape;
  std::vector<Term> wins;
  for (int i = 0; i < f.num_inputs(); ++i) {
    wins.push_back(CastTo(EqualTo(f.input(i), y), y.dtype));
  }
  Term winners = wins[0];
  for (size_t i = 1; i < wins.size(); ++i) winners = winners + wins[i];
  const Term share = dy / winners;
  for (int i = 0; i < f.num_inputs(); ++i) {
    if (f.wants(i)) f.set_grad(i, SumTo(share * wins[i], shape, f.input_type(i).shape));
  }
  return absl::OkStatus();
}

absl::Status SumGradient(GradientContext& c, bool mean) {
  Forward f(c);
  Term dy = f.output_grad(0);
  if (mean && f.num_inputs() > 1) dy = dy / f.num_inputs();
  for (int i = 0; i < f.num_inputs(); ++i) {
    if (f.wants(i)) f.set_grad(i, SumTo(dy, f.output_type(0).shape, f.input_type(i).shape));
  }
  return absl::OkStatus();
}

absl::Status SumGradient(GradientContext& c) { return SumGradient(c, /*mean=*/false); }
absl::Status MeanGradient(GradientContext& c) { return SumGradient(c, /*mean=*/true); }

template <ScalarOp kOp>
ScalarTerm ExtremumFormula(const Attrs&, std::span<const ScalarTerm> x) {
  ScalarTerm result = x[0];
  for (const ScalarTerm& other : x.subspan(1)) result = ScalarBinary(kOp, result, other);
  return result;
}

// Sums of more are kept in f64.
ScalarTerm SumFormula(const Attrs&, std::span<const ScalarTerm> x) {
  return x.size() > 2 ? ScalarTerm() : x.size() == 2 ? x[0] + x[1] : x[0];
}

// Besides elementwise: the op commutes with these reductions of all operands together.
std::vector<ShardingRule> Rules(const NodeQuery& query, std::span<const Reduction> reductions) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  for (Reduction reduction : reductions) {
    ShardingRule rule = ReplicateAll(query, StrCat("keep all partial ", ReductionName(reduction)));
    for (AxisSharding& input : rule.inputs) input = Partial(reduction);
    rule.outputs[0] = Partial(reduction);
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<ShardingRule> MaxRules(const NodeQuery& query) {
  static constexpr Reduction kOwn[] = {Reduction::kMax};
  return Rules(query, kOwn);
}
std::vector<ShardingRule> MinRules(const NodeQuery& query) {
  static constexpr Reduction kOwn[] = {Reduction::kMin};
  return Rules(query, kOwn);
}
std::vector<ShardingRule> LinearRules(const NodeQuery& query) {
  return Rules(query, kLinearReductions);
}

// One combination for each operand but the first, of each element.
Work VariadicWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  work.flops *= static_cast<double>(query.inputs.size()) - 1;
  return work;
}

OpDef Variadic(std::string name, std::string doc, std::vector<DType> dtypes) {
  return {
      .name = std::move(name),
      .doc = std::move(doc),
      .inputs = {{.name = "inputs", .dtypes = std::move(dtypes), .variadic = true, .same_as = "T"}},
      .outputs = {{.name = "output", .same_as = "T"}},
      .traits = {.in_place = {{0, 0}}},
      .fusion = FusionClass::kElementwise,
      .infer = Infer,
      .work = VariadicWork};
}

}  // namespace

OpDef MaxOp() {
  OpDef op = Variadic("Max", "The largest of all operands, broadcast", NumericTypes());
  op.scalar = ExtremumFormula<ScalarOp::kMax>;
  op.reference = ExtremumReference<kMax>;
  op.gradient = ExtremumGradient;
  op.sharding = MaxRules;
  return op;
}

OpDef MinOp() {
  OpDef op = Variadic("Min", "The smallest of all operands, broadcast", NumericTypes());
  op.scalar = ExtremumFormula<ScalarOp::kMin>;
  op.reference = ExtremumReference<kMin>;
  op.gradient = ExtremumGradient;
  op.sharding = MinRules;
  return op;
}

OpDef SumOp() {
  OpDef op = Variadic("Sum", "The sum of all operands, broadcast", FloatTypes());
  op.scalar = SumFormula;
  op.reference = Sum;
  op.gradient = SumGradient;
  op.sharding = LinearRules;
  return op;
}

OpDef MeanOp() {
  OpDef op = Variadic("Mean", "The mean of all operands, broadcast", FloatTypes());
  op.reference = Mean;
  op.gradient = MeanGradient;
  op.sharding = LinearRules;
  return op;
}

}  // namespace millrace
