#include "graph/expr.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "graph/assert.h"
#include "graph/strings.h"

namespace millrace {
namespace {

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a > 0) == (b > 0) ? std::numeric_limits<int64_t>::max()
                            : std::numeric_limits<int64_t>::min();
}

int64_t ValueOf(int variable, const ExprVars& vars) {
  if (variable == kMicrobatchVar) return vars.microbatch;
  if (variable == kIterationVar) return vars.iteration;
  MILLRACE_CHECK(variable >= 0);
  return variable < static_cast<int>(vars.coordinates.size()) ? vars.coordinates[variable] : 0;
}

std::string VariableName(int variable, const Mesh& mesh) {
  if (variable == kMicrobatchVar) return "mb";
  if (variable == kIterationVar) return "iter";
  // Wrong plans are printed too, to say what is wrong with them.
  if (variable < 0 || variable >= std::ssize(mesh.axes)) return StrCat("axis", variable);
  return mesh.axes[variable].name;
}

// Reads one expression front to back; every method leaves `rest` after what it took.
class ExprParser {
 public:
  ExprParser(std::string_view text, const Mesh& mesh) : text_(text), rest_(text), mesh_(mesh) {}

  absl::StatusOr<LinearExpr> Parse() {
    LinearExpr expr;
    bool first = true;
    do {
      const bool negative = first ? Take('-') : false;
      MILLRACE_RETURN_IF_ERROR(ParseAddend(negative, expr));
      first = false;
    } while (Take('+'));
    if (!rest_.empty()) return Error("unexpected text");
    return expr;
  }

 private:
  // number | [number "*"] factor
  absl::Status ParseAddend(bool negative, LinearExpr& expr) {
    int64_t scale = 1;
    if (IsNumberNext()) {
      MILLRACE_ASSIGN_OR_RETURN(scale, Number());
      if (negative) scale = -scale;
      if (!Take('*')) {
        expr.base = SaturatingAdd(expr.base, scale);
        return absl::OkStatus();
      }
    } else if (negative) {
      scale = -1;
    }
    LinearTerm term;
    term.scale = scale;
    MILLRACE_RETURN_IF_ERROR(ParseFactor(term));
    expr.terms.push_back(term);
    return absl::OkStatus();
  }

  // name | "(" inner "%" number ")" with inner: name | "(" name "+" number ")"
  absl::Status ParseFactor(LinearTerm& term) {
    if (!Take('(')) return ParseName(term);
    if (Take('(')) {
      MILLRACE_RETURN_IF_ERROR(ParseName(term));
      if (!Take('+')) return Error("expected '+'");
      MILLRACE_ASSIGN_OR_RETURN(term.add, Number());
      if (!Take(')')) return Error("expected ')'");
    } else {
      MILLRACE_RETURN_IF_ERROR(ParseName(term));
      if (Take('+')) {
        MILLRACE_ASSIGN_OR_RETURN(term.add, Number());
        return Take(')') ? absl::OkStatus() : Error("expected ')'");
      }
    }
    if (!Take('%')) return Error("expected '%'");
    MILLRACE_ASSIGN_OR_RETURN(term.modulus, Number());
    if (term.modulus < 1) return Error("a modulus must be at least 1");
    return Take(')') ? absl::OkStatus() : Error("expected ')'");
  }

  absl::Status ParseName(LinearTerm& term) {
    size_t n = 0;
    while (n < rest_.size() &&
           std::string_view("+*%() ").find(rest_[n]) == std::string_view::npos) {
      ++n;
    }
    const std::string_view name = rest_.substr(0, n);
    if (name.empty()) return Error("expected a variable");
    rest_.remove_prefix(n);
    if (name == "mb") {
      term.variable = kMicrobatchVar;
    } else if (name == "iter") {
      term.variable = kIterationVar;
    } else {
      term.variable = mesh_.FindAxis(name);
      if (term.variable < 0) {
        return Error(StrCat("'", name, "' is neither mb, iter nor a mesh axis"));
      }
    }
    return absl::OkStatus();
  }

  bool IsNumberNext() const {
    return !rest_.empty() && ((rest_[0] >= '0' && rest_[0] <= '9') || rest_[0] == '-');
  }

  absl::StatusOr<int64_t> Number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return Error("expected an integer");
    rest_.remove_prefix(end - rest_.data());
    return value;
  }

  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  absl::Status Error(std::string_view what) const {
    return BadInputError(
        StrCat("expression '", text_, "': ", what, " at column ", text_.size() - rest_.size() + 1));
  }

  std::string_view text_, rest_;
  const Mesh& mesh_;
};

}  // namespace

int64_t Evaluate(const LinearExpr& expr, const ExprVars& vars) {
  int64_t result = expr.base;
  for (const LinearTerm& term : expr.terms) {
    int64_t x = SaturatingAdd(ValueOf(term.variable, vars), term.add);
    if (term.modulus > 0) {
      x %= term.modulus;
      if (x < 0) x += term.modulus;
    }
    result = SaturatingAdd(result, SaturatingMultiply(term.scale, x));
  }
  return result;
}

std::string ToString(const LinearExpr& expr, const Mesh& mesh) {
  std::string s;
  if (expr.base != 0 || expr.terms.empty()) s = StrCat(expr.base);
  for (const LinearTerm& term : expr.terms) {
    if (!s.empty()) s += "+";
    if (term.scale != 1) StrAppend(&s, term.scale, "*");
    std::string x = VariableName(term.variable, mesh);
    if (term.add != 0) x = StrCat("(", x, "+", term.add, ")");
    if (term.modulus != 0) x = StrCat("(", x, "%", term.modulus, ")");
    s += x;
  }
  return s;
}

absl::StatusOr<LinearExpr> ParseLinearExpr(std::string_view text, const Mesh& mesh) {
  return ExprParser(text, mesh).Parse();
}

}  // namespace millrace
