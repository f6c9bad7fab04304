// The rules. Each makes fewer nodes, or a cheaper one, of those it finds, so that applying them
// ends. Those about constants leave nodes that fold-constants computes.
#include "passes/algebra_rules.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace {
namespace {

struct RuleText {
  std::string_view name, text;
  AlgebraTypes types = AlgebraTypes::kAny;
  bool c_is_power_of_two = false;
};

using enum AlgebraTypes;

constexpr RuleText kExactRules[] = {
    // Signs.
    {"add-negation", "Add(x, Neg(y)) -> Sub(x, y)"},
    {"subtract-negation", "Sub(x, Neg(y)) -> Add(x, y)"},
    {"multiply-negations", "Mul(Neg(x), Neg(y)) -> Mul(x, y)"},
    {"divide-negations", "Div(Neg(x), Neg(y)) -> Div(x, y)", kFloats},
    {"multiply-by-minus-one", "Mul(x, -1) -> Neg(x)"},
    {"divide-by-minus-one", "Div(x, -1) -> Neg(x)", kFloats},
    {"subtract-from-zero", "Sub(-0, x) -> Neg(x)", kFloats},
    {"subtract-from-zero", "Sub(0, x) -> Neg(x)", kIntegers},
    {"negate-constant", "Mul(Neg(x), c) -> Mul(x, Neg(c))", kFloats},
    {"negate-constant", "Neg(Mul(x, c)) -> Mul(x, Neg(c))", kFloats},
    {"negate-constant", "Div(Neg(x), c) -> Div(x, Neg(c))", kFloats},
    {"negate-constant", "Neg(Div(x, c)) -> Div(x, Neg(c))", kFloats},
    {"absolute-of-negation", "Abs(Neg(x)) -> Abs(x)", kFloats},
    {"bound-absolute", "Relu(Abs(x)) -> Abs(x)", kFloats},
    // Powers and quotients.
    {"divide-one", "Div(1, x) -> Reciprocal(x)", kFloats},
    {"divide-by-power-of-two", "Div(x, c) -> Mul(x, Reciprocal(c))", kFloats, true},
    {"square", "Pow(x, 2) -> Mul(x, x)", kFloats},
    {"power-of-zero", "Pow(x, 0) -> 1", kFloats},
    {"power-of-minus-one", "Pow(x, -1) -> Reciprocal(x)", kFloats},
    // One value twice.
    {"same-twice", "Max(x, x) -> x"},
    {"same-twice", "Min(x, x) -> x"},
    {"same-twice", "And(x, x) -> x"},
    {"same-twice", "Or(x, x) -> x"},
    {"same-twice", "Where(u, x, x) -> x"},
    {"choose-the-other", "Where(Not(u), x, y) -> Where(u, y, x)"},
    // Integers wrap around, and so are a ring.
    {"subtract-itself", "Sub(x, x) -> 0", kIntegers},
    {"multiply-by-zero", "Mul(x, 0) -> 0", kIntegers},
    {"gather-constants", "Add(Add(x, c), d) -> Add(x, Add(c, d))", kIntegers},
    {"gather-constants", "Mul(Mul(x, c), d) -> Mul(x, Mul(c, d))", kIntegers},
    {"gather-constants", "Sub(Sub(x, c), d) -> Sub(x, Add(c, d))", kIntegers},
    {"gather-constants", "Sub(Add(x, c), d) -> Add(x, Sub(c, d))", kIntegers},
    {"gather-constants", "Add(Sub(x, c), d) -> Add(x, Sub(d, c))", kIntegers},
    {"factor-out", "Add(Mul(x, y), Mul(x, z)) -> Mul(x, Add(y, z))", kIntegers},
    // They are also in order, which floats with NaN are not.
    {"turn-comparison", "Not(Less(x, y)) -> GreaterOrEqual(x, y)", kIntegers},
    {"turn-comparison", "Not(LessOrEqual(x, y)) -> Greater(x, y)", kIntegers},
    {"turn-comparison", "Not(Greater(x, y)) -> LessOrEqual(x, y)", kIntegers},
    {"turn-comparison", "Not(GreaterOrEqual(x, y)) -> Less(x, y)", kIntegers},
};

// Not in half precision, where every node rounds to few digits and some numbers that are harmless
// in between would overflow.
constexpr RuleText kRealRules[] = {
    {"gather-constants", "Add(Add(x, c), d) -> Add(x, Add(c, d))", kF32AndF64},
    {"gather-constants", "Mul(Mul(x, c), d) -> Mul(x, Mul(c, d))", kF32AndF64},
    {"gather-constants", "Sub(Sub(x, c), d) -> Sub(x, Add(c, d))", kF32AndF64},
    {"gather-constants", "Sub(Add(x, c), d) -> Add(x, Sub(c, d))", kF32AndF64},
    {"gather-constants", "Add(Sub(x, c), d) -> Add(x, Sub(d, c))", kF32AndF64},
    {"gather-constants", "Div(Mul(x, c), d) -> Mul(x, Div(c, d))", kF32AndF64},
    {"divide-by-constant", "Div(x, c) -> Mul(x, Reciprocal(c))", kF32AndF64},
    {"factor-out", "Add(Mul(x, y), Mul(x, z)) -> Mul(x, Add(y, z))", kF32AndF64},
    {"factor-out", "Sub(Mul(x, y), Mul(x, z)) -> Mul(x, Sub(y, z))", kF32AndF64},
    {"factor-out", "Add(Div(x, y), Div(z, y)) -> Div(Add(x, z), y)", kF32AndF64},
    {"subtract-itself", "Sub(x, x) -> 0", kF32AndF64},
    {"divide-by-itself", "Div(x, x) -> 1", kF32AndF64},
    {"multiply-by-zero", "Mul(x, 0) -> 0", kF32AndF64},
    {"add-zero", "Add(x, 0) -> x", kF32AndF64},
    {"subtract-from-zero", "Sub(0, x) -> Neg(x)", kF32AndF64},
    {"subtract-what-was-added", "Sub(Add(x, y), y) -> x", kF32AndF64},
    {"add-what-was-subtracted", "Add(Sub(x, y), y) -> x", kF32AndF64},
    {"turn-difference", "Neg(Sub(x, y)) -> Sub(y, x)", kF32AndF64},
    {"twice-reciprocal", "Reciprocal(Reciprocal(x)) -> x", kF32AndF64},
    {"multiply-reciprocal", "Mul(x, Reciprocal(y)) -> Div(x, y)", kF32AndF64},
    {"divide-by-reciprocal", "Div(x, Reciprocal(y)) -> Mul(x, y)", kF32AndF64},
    {"multiply-exponentials", "Mul(Exp(x), Exp(y)) -> Exp(Add(x, y))", kF32AndF64},
    {"divide-exponentials", "Div(Exp(x), Exp(y)) -> Exp(Sub(x, y))", kF32AndF64},
    {"exponential-of-logarithm", "Exp(Log(x)) -> x", kF32AndF64},
    {"logarithm-of-exponential", "Log(Exp(x)) -> x", kF32AndF64},
    {"root-of-square", "Sqrt(Mul(x, x)) -> Abs(x)", kF32AndF64},
    {"square-of-root", "Mul(Sqrt(x), Sqrt(x)) -> x", kF32AndF64},
    {"root", "Pow(x, 0.5) -> Sqrt(x)", kF32AndF64},
    {"cube", "Pow(x, 3) -> Mul(Mul(x, x), x)", kF32AndF64},
    {"turn-comparison", "Not(Less(x, y)) -> GreaterOrEqual(x, y)", kF32AndF64},
    {"turn-comparison", "Not(LessOrEqual(x, y)) -> Greater(x, y)", kF32AndF64},
    {"turn-comparison", "Not(Greater(x, y)) -> LessOrEqual(x, y)", kF32AndF64},
    {"turn-comparison", "Not(GreaterOrEqual(x, y)) -> Less(x, y)", kF32AndF64},
};

class TermReader {
 public:
  explicit TermReader(std::string_view text) : text_(text) {}

  AlgebraTerm Read() {
    AlgebraTerm term;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != ',' && text_[at_] != ')') ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    MILLRACE_CHECK(!word.empty());
    if (Take('(')) {
      term.op = word;
      do {
        Take(' ');
        term.operands.push_back(Read());
      } while (Take(','));
      MILLRACE_CHECK(Take(')'));
    } else if (std::islower(static_cast<unsigned char>(word[0])) != 0) {
      MILLRACE_CHECK(word.size() == 1);
      term.letter = word[0];
    } else {
      term.number = std::strtod(word.c_str(), nullptr);
    }
    return term;
  }
  bool at_end() const { return at_ == text_.size(); }

 private:
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::vector<AlgebraRule> ParseRules(std::span<const RuleText> texts) {
  std::vector<AlgebraRule> rules;
  for (const RuleText& text : texts) {
    const std::pair<std::string, std::string> sides =
        absl::StrSplit(AbslView(text.text), absl::MaxSplits(" -> ", 1));
    rules.push_back({std::string(text.name), ParseAlgebraTerm(sides.first),
                     ParseAlgebraTerm(sides.second), text.types, text.c_is_power_of_two});
  }
  return rules;
}

}  // namespace

AlgebraTerm ParseAlgebraTerm(std::string_view text) {
  TermReader reader(text);
  AlgebraTerm term = reader.Read();
  MILLRACE_CHECK(reader.at_end());
  return term;
}

std::string ToString(const AlgebraTerm& term) {
  if (term.number.has_value()) {
    return StrCat(*term.number == 0 && std::signbit(*term.number) ? "-0" : StrCat(*term.number));
  }
  if (term.op.empty()) return std::string(1, term.letter);
  return StrCat(term.op, "(",
                absl::StrJoin(term.operands, ", ",
                              [](std::string* out, const AlgebraTerm& operand) {
                                *out += ToString(operand);
                              }),
                ")");
}

std::span<const AlgebraRule> ExactAlgebraRules() {
  static const std::vector<AlgebraRule> rules = ParseRules(kExactRules);
  return rules;
}

std::span<const AlgebraRule> RealAlgebraRules() {
  static const std::vector<AlgebraRule> rules = ParseRules(kRealRules);
  return rules;
}

}  // namespace millrace
