#include "graph/text_lexer.h"

#include <nlohmann/json.hpp>

#include "graph/strings.h"
#include "graph/text_syntax.h"

namespace millrace {

void TextLexer::Step() {
  if (text_[at_] == '\n') {
    ++position_.line;
    position_.column = 1;
  } else {
    ++position_.column;
  }
  ++at_;
}

void TextLexer::LexQuoted() {
  const size_t begin = at_;
  Step();
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
    if (text_[at_] == '\\' && at_ + 1 < text_.size()) Step();
    Step();
  }
  if (at_ >= text_.size() || text_[at_] != '"') {
    status_ = ErrorAt(token_.position, "a string does not end on its line");
    token_.kind = TokenKind::kEnd;
    return;
  }
  Step();
  const auto parsed = nlohmann::json::parse(text_.substr(begin, at_ - begin), nullptr, false);
  if (!parsed.is_string()) {
    status_ = ErrorAt(token_.position, "a string has a bad escape or is not UTF-8");
    token_.kind = TokenKind::kEnd;
    return;
  }
  token_.kind = TokenKind::kQuoted;
  token_.text = parsed.get<std::string>();
}

void TextLexer::Advance() {
  if (!status_.ok()) return;
  bool newline = false;
  const FilePosition start = position_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') Step();
    } else if (c == '\n') {
      newline = true;
      Step();
    } else if (c == ' ' || c == '\t' || c == '\r') {
      Step();
    } else {
      break;
    }
  }
  token_.text.clear();
  if (newline) {
    token_.kind = TokenKind::kNewline;
    token_.position = start;
    return;
  }
  token_.position = position_;
  if (at_ >= text_.size()) {
    token_.kind = TokenKind::kEnd;
    return;
  }
  const char c = text_[at_];
  const size_t begin = at_;
  if (c == '"') return LexQuoted();
  if (IsNameStart(c)) {
    while (at_ < text_.size() && IsNameChar(text_[at_])) Step();
    token_.kind = TokenKind::kName;
  } else if ((c >= '0' && c <= '9') || c == '-') {
    Step();
    while (at_ < text_.size() &&
           (IsNameChar(text_[at_]) || (text_[at_] == '+' && text_[at_ - 1] == 'e'))) {
      Step();
    }
    token_.kind = TokenKind::kNumber;
  } else {
    Step();
    if (c == '<' && at_ < text_.size() && text_[at_] == '-') Step();
    token_.kind = TokenKind::kPunct;
  }
  token_.text = text_.substr(begin, at_ - begin);
}

bool TextLexer::Take(std::string_view punct) {
  if (!Is(punct)) return false;
  Advance();
  return true;
}

bool TextLexer::TakeWord(std::string_view word) {
  if (!IsWord(word)) return false;
  Advance();
  return true;
}

absl::Status TextLexer::Expect(std::string_view punct) {
  if (Take(punct)) return absl::OkStatus();
  return Error(StrCat("expected '", punct, "'"));
}

absl::Status TextLexer::Error(std::string_view message) const {
  if (!status_.ok()) return status_;
  std::string found;
  switch (token_.kind) {
    case TokenKind::kNewline:
      found = "the end of the line";
      break;
    case TokenKind::kEnd:
      found = "the end of the text";
      break;
    default:
      found = StrCat("'", token_.text, "'");
  }
  return ErrorAt(token_.position, StrCat(message, ", found ", found));
}

absl::Status TextLexer::ErrorAt(FilePosition position, std::string_view message) const {
  Diagnostic d;
  d.file = file_;
  d.position = position;
  d.message = std::string(message);
  return BadInputError(FormatDiagnostic(d));
}

}  // namespace millrace
