// Dims as written in a graph file.
//
//   sum     := product (("+" | "-") product)*
//   product := factor (("*" | "/") factor)*
//   factor  := digits | symbol | "(" sum ")"
//
// "/" divides exactly or is an error; operators of one kind group from the left, so N*4/2 is
// (N*4)/2. Spaces may stand between tokens. What is between may be negative, the result may not.

#include "graph/diagnostics.h"
#include "graph/graph_json.h"
#include "graph/strings.h"

namespace millrace {
namespace {

constexpr int kMaxParentheses = 16;
constexpr size_t kMaxLength = 256;
constexpr size_t kMaxTextShown = 60;  // in messages

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSymbolChar(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class DimParser {
 public:
  DimParser(std::string_view text, const std::map<std::string, int64_t>& symbols, bool with_hint)
      : text_(text), symbols_(symbols), with_hint_(with_hint) {}

  absl::StatusOr<int64_t> Parse() {
    if (text_.size() > kMaxLength) return Error(StrCat("is longer than ", kMaxLength, " bytes"));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t value, Sum());
    if (Peek() != '\0') return Error(StrCat("has an unexpected '", Found(), "'"));
    if (value < 0) return Error(StrCat("is negative: ", value));
    if (value > kMaxBytes) return Error(StrCat("is too large: ", value));
    return value;
  }

 private:
  // The next character that is no space; '\0' at the end.
  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string Found() const { return std::string(text_.substr(at_, 1)); }

  absl::Status Error(std::string_view what) const {
    const bool cut = text_.size() > kMaxTextShown;
    return BadInputError(
        StrCat("dim '", text_.substr(0, kMaxTextShown), cut ? "..." : "", "' ", what));
  }

  absl::StatusOr<int64_t> Sum() {
    MILLRACE_ASSIGN_OR_RETURN(int64_t left, Product());
    for (char op = Peek(); op == '+' || op == '-'; op = Peek()) {
      ++at_;
      MILLRACE_ASSIGN_OR_RETURN(const int64_t right, Product());
      if (op == '+' ? __builtin_add_overflow(left, right, &left)
                    : __builtin_sub_overflow(left, right, &left)) {
        return Error("overflows");
      }
    }
    return left;
  }

  absl::StatusOr<int64_t> Product() {
    MILLRACE_ASSIGN_OR_RETURN(int64_t left, Factor());
    for (char op = Peek(); op == '*' || op == '/'; op = Peek()) {
      ++at_;
      MILLRACE_ASSIGN_OR_RETURN(const int64_t right, Factor());
      if (op == '*') {
        if (__builtin_mul_overflow(left, right, &left)) return Error("overflows");
        continue;
      }
      if (right == 0) return Error("divides by zero");
      if (right == -1) return Error("divides by -1");
      if (left % right != 0) {
        return Error(
            StrCat("does not divide exactly: ", left, " / ", right, " leaves a remainder"));
      }
      left /= right;
    }
    return left;
  }

  absl::StatusOr<int64_t> Factor() {
    const char c = Peek();
    if (c == '(') {
      if (++depth_ > kMaxParentheses) return Error("has too many parentheses");
      ++at_;
      MILLRACE_ASSIGN_OR_RETURN(const int64_t value, Sum());
      if (Peek() != ')') return Error("lacks a ')'");
      ++at_;
      --depth_;
      return value;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && IsSymbolChar(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) {
      return Error(c == '\0' ? std::string("ends too early; a number or symbol must follow")
                             : StrCat("has '", Found(), "' where a number or symbol must stand"));
    }
    return IsDigit(word[0]) ? Integer(word) : Lookup(word);
  }

  absl::StatusOr<int64_t> Integer(std::string_view digits) const {
    int64_t value = 0;
    for (const char c : digits) {
      if (!IsDigit(c)) return Error(StrCat("has '", digits, "', neither a number nor a symbol"));
      if (value > kMaxBytes) return Error("overflows");
      value = value * 10 + (c - '0');
    }
    return value;
  }

  absl::StatusOr<int64_t> Lookup(std::string_view name) const {
    const auto found = symbols_.find(std::string(name));
    if (found != symbols_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [symbol, value] : symbols_) {
      if (with_hint_) known.push_back(symbol);
    }
    const std::string hint = DidYouMean(name, known);
    return Error(StrCat("names '", name, "', which \"symbols\" does not declare",
                        hint.empty() ? "" : "; ", hint));
  }

  const std::string_view text_;
  const std::map<std::string, int64_t>& symbols_;
  const bool with_hint_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> EvaluateDim(std::string_view expression,
                                    const std::map<std::string, int64_t>& symbols, bool with_hint) {
  return DimParser(expression, symbols, with_hint).Parse();
}

}  // namespace millrace
