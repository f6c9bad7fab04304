// Every rule of algebra_rules.h, applied to a graph made of its own text, must leave what the graph
// means as it was: bit for bit by the exact rules, whatever the operands; nearly so by those of
// real numbers, for operands that are harmless.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "graph/builder.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/evaluate_graph.h"
#include "ops/infer.h"
#include "passes/algebra_rules.h"
#include "passes/pass_list.h"

namespace millrace {
namespace {

constexpr int64_t kCount = 64;

// Numbers that rules stumble over, then others.
double HostileNumber(int64_t i, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kHostile[] = {0.0, -0.0, 1, -1, kInfinity, -kInfinity, NAN, 0.5, 2, 3, -7, 1e-5};
  if (IsFloat(dtype)) {
    return i < std::ssize(kHostile) ? kHostile[i] : std::ldexp(1.37 * (i % 13 - 6.25), i % 9 - 4);
  }
  return static_cast<double>(i * 37 % 101 - 50);
}
double HarmlessNumber(int64_t i) { return 0.25 + static_cast<double>(i * 29 % 31) / 16; }

class RuleGraph {
 public:
  RuleGraph(const AlgebraRule& rule, DType dtype, bool harmless)
      : rule_(rule), dtype_(dtype), harmless_(harmless) {
    builder_.Output(Build(rule.from, /*is_condition=*/false));
  }

  Graph graph() const { return builder_.graph(); }
  const std::vector<Tensor>& inputs() const { return inputs_; }

 private:
  ValueId Build(const AlgebraTerm& term, bool is_condition) {
    if (!term.op.empty()) {
      std::vector<ValueId> operands;
      for (size_t i = 0; i < term.operands.size(); ++i) {
        const bool condition =
            is_condition || term.op == "And" || term.op == "Or" || (term.op == "Where" && i == 0);
        const bool comparison = term.op == "Not" && !term.operands[i].op.empty();
        operands.push_back(Build(term.operands[i], condition && !comparison));
      }
      return builder_.Op(term.op, std::move(operands));
    }
    const DType dtype = is_condition ? DType::kBool : dtype_;
    if (term.number.has_value()) {
      Tensor number = Tensor::Zeros({dtype, {}});
      number.Set(0, *term.number);
      return builder_.Constant("number", number);
    }
    ValueId& value = values_[term.letter];
    if (value.valid()) return value;
    const std::string name(1, term.letter);
    if (term.is_constant()) return value = builder_.Constant(name, ConstantOf(term.letter));
    value = builder_.Input(name, {dtype, {kCount}});
    inputs_.push_back(InputOf(dtype, inputs_.size()));
    return value;
  }

  Tensor ConstantOf(char letter) const {
    Tensor constant = Tensor::Zeros({dtype_, {4, 1}});
    for (int64_t i = 0; i < 4; ++i) {
      const double odd = (letter == 'c' ? 3 : 5) * static_cast<double>(i - 1);
      double number = harmless_ ? 1.5 + static_cast<double>(i) : odd;
      if (rule_.c_is_power_of_two)
        number = std::ldexp(i % 2 == 0 ? 1 : -1, static_cast<int>(i) - 2);
      constant.Set(i, number);
    }
    return constant;
  }

  // Every number of one input meets every number of another somewhere among the first few.
  Tensor InputOf(DType dtype, size_t index) const {
    Tensor input = Tensor::Zeros({dtype, {kCount}});
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t which = index == 0 ? i : (i * static_cast<int64_t>(2 * index + 3) + 5) % kCount;
      input.Set(i, harmless_ ? HarmlessNumber(which) : HostileNumber(which, dtype));
    }
    return input;
  }

  const AlgebraRule& rule_;
  const DType dtype_;
  const bool harmless_;
  GraphBuilder builder_{"rule"};
  std::map<char, ValueId> values_;
  std::vector<Tensor> inputs_;
};

std::vector<DType> DTypesOf(AlgebraTypes types, bool is_logic) {
  if (is_logic) return {DType::kBool};
  switch (types) {
    case AlgebraTypes::kFloats:
      return {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
    case AlgebraTypes::kIntegers:
      return {DType::kI8, DType::kU8, DType::kI32, DType::kI64};
    case AlgebraTypes::kF32AndF64:
      return {DType::kF32, DType::kF64};
    case AlgebraTypes::kAny:
      return {DType::kI32, DType::kF16, DType::kF32, DType::kF64};
  }
  return {};
}

bool IsSame(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

double Epsilon(DType dtype) {
  return dtype == DType::kF64   ? 0x1p-52
         : dtype == DType::kF32 ? 0x1p-23
         : dtype == DType::kF16 ? 0x1p-10
                                : 0x1p-7;
}

void ExpectRuleHolds(const AlgebraRule& rule, DType dtype, bool is_exact,
                     absl::StatusOr<bool> (*pass)(Graph&, PassContext&)) {
  SCOPED_TRACE(StrCat(ToString(rule.from), " -> ", ToString(rule.to), " in ", DTypeName(dtype)));
  const RuleGraph made(rule, dtype, !is_exact);
  Graph graph = made.graph();
  const absl::Status inferred = InferTypes(graph);
  if (!inferred.ok()) return;  // the op does not take this type
  const Graph before = graph;
  PassContext context;
  const absl::StatusOr<bool> changed = pass(graph, context);
  ASSERT_TRUE(changed.ok()) << changed.status();
  if (!*changed && dtype == DType::kU8) return;  // which has no Neg
  ASSERT_TRUE(*changed);
  EXPECT_EQ(context.records.front().rule, rule.name);
  ASSERT_TRUE(InferTypes(graph).ok());
  ASSERT_TRUE(VerifyGraphAfter(graph, "rule").ok());
  const auto expected = EvaluateGraph(before, made.inputs());
  const auto found = EvaluateGraph(graph, made.inputs());
  ASSERT_TRUE(expected.ok() && found.ok()) << found.status();
  ASSERT_EQ((*expected)[0].type(), (*found)[0].type());
  const bool has_power = rule.from.op == "Pow";
  for (int64_t i = 0; i < (*expected)[0].num_elements(); ++i) {
    const double a = (*expected)[0].AsDouble(i), b = (*found)[0].AsDouble(i);
    const double rounding = Epsilon(dtype) * (is_exact ? 1 : 16) * std::max(std::abs(a), 1.0);
    if (is_exact && !has_power) {
      EXPECT_TRUE(IsSame(a, b)) << i << ": " << a << " became " << b;
    } else {
      EXPECT_TRUE(IsSame(a, b) || std::abs(a - b) <= rounding) << i << ": " << a << " became " << b;
    }
  }
}

bool IsLogic(const AlgebraTerm& term) { return term.op == "And" || term.op == "Or"; }

TEST(SimplifyAlgebraTest, ExactRulesChangeNoBit) {
  int applied = 0;
  for (const AlgebraRule& rule : ExactAlgebraRules()) {
    for (const DType dtype : DTypesOf(rule.types, IsLogic(rule.from))) {
      ExpectRuleHolds(rule, dtype, /*is_exact=*/true, SimplifyAlgebra);
      ++applied;
    }
  }
  EXPECT_GT(applied, 100);
}

TEST(SimplifyAlgebraTest, RulesOfRealNumbersHoldWhereNumbersAreHarmless) {
  for (const AlgebraRule& rule : RealAlgebraRules()) {
    for (const DType dtype : DTypesOf(rule.types, false)) {
      ExpectRuleHolds(rule, dtype, /*is_exact=*/false, RelaxAlgebra);
    }
  }
}

TEST(SimplifyAlgebraTest, RulesReadAsTheyAreWritten) {
  EXPECT_EQ(ToString(ParseAlgebraTerm("Div(Mul(x, -0), Neg(c))")), "Div(Mul(x, -0), Neg(c))");
}

}  // namespace
}  // namespace millrace
