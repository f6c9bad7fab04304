#include <charconv>

#include "graph/fused_program.h"
#include "graph/strings.h"
#include "graph/text_lexer.h"
#include "graph/text_syntax.h"

namespace millrace {
namespace {

std::string PlaceText(int64_t offset, const std::vector<int64_t>& strides) {
  std::string s = offset != 0 ? StrCat("+", offset, " [") : "[";
  for (size_t i = 0; i < strides.size(); ++i) StrAppend(&s, i > 0 ? ", " : "", strides[i]);
  return s + "]";
}

std::string ScalarInstructionText(const ScalarInstruction& s) {
  std::string text = StrCat(ScalarOpName(s.op), " ", DTypeName(s.dtype));
  if (s.op == ScalarOp::kLoad) return StrCat(text, " @", s.a);
  if (s.op == ScalarOp::kConstant) return StrCat(text, " ", NumberText(s.constant));
  if (s.op == ScalarOp::kIndex) return StrCat(text, " dim ", s.a);
  const int32_t operands[] = {s.a, s.b, s.c};
  for (int k = 0; k < Arity(s.op); ++k) StrAppend(&text, " %", operands[k]);
  return text;
}

// One statement after another, each ending with ";" or the end of the text.
class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text, "fused program") {}

  absl::StatusOr<FusedProgram> Parse() {
    do {
      MILLRACE_RETURN_IF_ERROR(ParseStatement());
    } while (lex_.Take(";"));
    if (lex_.token().kind != TokenKind::kEnd || !lex_.status().ok()) {
      return lex_.Error("expected ';' or the end");
    }
    MILLRACE_RETURN_IF_ERROR(VerifyFusedProgram(p_));
    return std::move(p_);
  }

 private:
  absl::Status ParseStatement() {
    if (lex_.TakeWord("dims")) return ParseDims();
    if (lex_.TakeWord("in")) {
      FusedOperand operand;
      MILLRACE_ASSIGN_OR_RETURN(operand.dtype, ParseType());
      MILLRACE_RETURN_IF_ERROR(ParsePlace(operand.offset, operand.strides));
      p_.operands.push_back(std::move(operand));
      return absl::OkStatus();
    }
    if (lex_.TakeWord("out")) {
      FusedOutput output;
      MILLRACE_ASSIGN_OR_RETURN(output.dtype, ParseType());
      MILLRACE_RETURN_IF_ERROR(ParsePlace(output.offset, output.strides));
      MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
      MILLRACE_ASSIGN_OR_RETURN(output.value, ParseRef("%"));
      p_.outputs.push_back(std::move(output));
      return absl::OkStatus();
    }
    return ParseInstruction();
  }

  absl::Status ParseDims() {
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("["));
    while (!lex_.Take("]")) {
      if (!p_.dims.empty()) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      IndexDim dim;
      MILLRACE_ASSIGN_OR_RETURN(dim.size, ParseInteger());
      const std::optional<DimRole> role = ParseDimRole(lex_.token().text);
      if (!role) return lex_.Error("expected outer, reduce or inner");
      dim.role = *role;
      lex_.Advance();
      p_.dims.push_back(dim);
    }
    return absl::OkStatus();
  }

  absl::Status ParseInstruction() {
    MILLRACE_ASSIGN_OR_RETURN(const int32_t number, ParseRef("%"));
    if (number != static_cast<int32_t>(p_.instructions.size())) {
      return lex_.Error(StrCat("expected instruction %", p_.instructions.size()));
    }
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    ScalarInstruction s;
    const std::optional<ScalarOp> op = ParseScalarOp(lex_.token().text);
    if (!op) return lex_.Error("expected a scalar op");
    s.op = *op;
    lex_.Advance();
    MILLRACE_ASSIGN_OR_RETURN(s.dtype, ParseType());
    if (s.op == ScalarOp::kLoad) {
      MILLRACE_ASSIGN_OR_RETURN(s.a, ParseRef("@"));
    } else if (s.op == ScalarOp::kConstant) {
      MILLRACE_ASSIGN_OR_RETURN(s.constant, ParseDouble());
    } else if (s.op == ScalarOp::kIndex) {
      if (!lex_.TakeWord("dim")) return lex_.Error("expected 'dim'");
      MILLRACE_ASSIGN_OR_RETURN(const int64_t dim, ParseInteger());
      if (dim < 0 || dim >= std::ssize(p_.dims)) return lex_.Error("expected the number of a dim, not a dim that is not there");
      s.a = static_cast<int32_t>(dim);
    } else {
      int32_t* operands[] = {&s.a, &s.b, &s.c};
      for (int k = 0; k < Arity(s.op); ++k) {
        MILLRACE_ASSIGN_OR_RETURN(*operands[k], ParseRef("%"));
      }
    }
    p_.instructions.push_back(s);
    return absl::OkStatus();
  }

  absl::StatusOr<DType> ParseType() {
    const std::optional<DType> dtype = ParseDType(lex_.token().text);
    if (!dtype) return lex_.Error("expected a dtype");
    lex_.Advance();
    return *dtype;
  }

  absl::Status ParsePlace(int64_t& offset, std::vector<int64_t>& strides) {
    if (lex_.Take("+")) {
      MILLRACE_ASSIGN_OR_RETURN(offset, ParseInteger());
    }
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("["));
    while (!lex_.Take("]")) {
      if (!strides.empty()) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      MILLRACE_ASSIGN_OR_RETURN(const int64_t stride, ParseInteger());
      strides.push_back(stride);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int32_t> ParseRef(std::string_view sigil) {
    MILLRACE_RETURN_IF_ERROR(lex_.Expect(sigil));
    MILLRACE_ASSIGN_OR_RETURN(const int64_t i, ParseInteger());
    if (i < 0 || i > (1 << 30)) return lex_.Error("a number is out of range");
    return static_cast<int32_t>(i);
  }

  template <typename T>
  absl::StatusOr<T> ParseNumber(std::string_view what) {
    const Token& t = lex_.token();
    const char* end = t.text.data() + t.text.size();
    T value = 0;
    const auto [parsed, error] = std::from_chars(t.text.data(), end, value);
    if (t.text.empty() || error != std::errc() || parsed != end) {
      return lex_.Error(StrCat("expected ", what));
    }
    lex_.Advance();
    return value;
  }
  absl::StatusOr<int64_t> ParseInteger() { return ParseNumber<int64_t>("an integer"); }
  // from_chars knows "nan", "inf" and "-inf".
  absl::StatusOr<double> ParseDouble() { return ParseNumber<double>("a number"); }

  TextLexer lex_;
  FusedProgram p_;
};

}  // namespace

std::string ToText(const FusedProgram& p) {
  std::string s = "dims [";
  for (size_t i = 0; i < p.dims.size(); ++i) {
    StrAppend(&s, i > 0 ? ", " : "", p.dims[i].size, " ", DimRoleName(p.dims[i].role));
  }
  s += "]";
  for (const FusedOperand& operand : p.operands) {
    StrAppend(&s, "; in ", DTypeName(operand.dtype), " ",
              PlaceText(operand.offset, operand.strides));
  }
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    StrAppend(&s, "; %", i, " = ", ScalarInstructionText(p.instructions[i]));
  }
  for (const FusedOutput& out : p.outputs) {
    StrAppend(&s, "; out ", DTypeName(out.dtype), " ", PlaceText(out.offset, out.strides), " = %",
              out.value);
  }
  return s;
}

absl::StatusOr<FusedProgram> ParseFusedProgram(std::string_view text) {
  return Parser(text).Parse();
}

}  // namespace millrace
