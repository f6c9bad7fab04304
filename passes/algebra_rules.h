// Algebraic rules as text: what expressions of nodes may become. In a rule such as
//
//   "Add(x, Neg(y)) -> Sub(x, y)"
//
// letters from u on stand for any value, those up to d for constants, and numbers for constants of
// one element (0 and -0 are two). A letter that comes twice is one value twice. Ops that commute
// match either way round.
#ifndef MILLRACE_PASSES_ALGEBRA_RULES_H_
#define MILLRACE_PASSES_ALGEBRA_RULES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct AlgebraTerm {
  std::string op = {};  // empty: a leaf
  std::vector<AlgebraTerm> operands = {};
  char letter = 0;  // a leaf without `number`
  std::optional<double> number = {};

  bool is_constant() const { return number.has_value() || (letter >= 'a' && letter <= 'd'); }
};

// What `x` of a rule must be for the rule to hold.
enum class AlgebraTypes : uint8_t { kAny, kFloats, kIntegers, kF32AndF64 };

struct AlgebraRule {
  std::string name;  // "add-negation"
  AlgebraTerm from, to;
  AlgebraTypes types = AlgebraTypes::kAny;
  // Holds only where `c` is a power of two, and so is what it is the reciprocal of.
  bool c_is_power_of_two = false;
};

// "Mul(x, -1)". CHECKs: rules are part of the program.
AlgebraTerm ParseAlgebraTerm(std::string_view text);
std::string ToString(const AlgebraTerm& term);

// Bit for bit, whatever the operands: infinities, zeros of either sign, NaN (which stays NaN,
// though maybe another one). Pow is the exception, which is good to an ulp or so: what it becomes
// is rounded once.
std::span<const AlgebraRule> ExactAlgebraRules();
// As real numbers have it: --fast-math.
std::span<const AlgebraRule> RealAlgebraRules();

}  // namespace millrace

#endif  // MILLRACE_PASSES_ALGEBRA_RULES_H_
