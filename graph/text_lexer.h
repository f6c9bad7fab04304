// Tokens of the text form, with their places.
#ifndef MILLRACE_GRAPH_TEXT_LEXER_H_
#define MILLRACE_GRAPH_TEXT_LEXER_H_

#include <string>
#include <string_view>

#include "graph/diagnostics.h"
#include "graph/status.h"

namespace millrace {

enum class TokenKind : uint8_t { kName, kQuoted, kNumber, kPunct, kNewline, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // kName, kNumber: as written; kQuoted: unescaped; kPunct: "{", "<-", ...
  FilePosition position;
};

// One token of look-ahead over a text. Newlines are tokens (one for any number of blank lines);
// comments and spaces are skipped.
class TextLexer {
 public:
  TextLexer(std::string_view text, std::string_view file) : text_(text), file_(file) { Advance(); }

  const Token& token() const { return token_; }
  // A bad token (an unterminated string) shows as kEnd, with the reason here.
  const absl::Status& status() const { return status_; }
  void Advance();

  bool Is(std::string_view punct) const {
    return token_.kind == TokenKind::kPunct && token_.text == punct;
  }
  bool IsWord(std::string_view word) const {
    return token_.kind == TokenKind::kName && token_.text == word;
  }
  // Advances when the token is this punctuation, or this word.
  bool Take(std::string_view punct);
  bool TakeWord(std::string_view word);
  absl::Status Expect(std::string_view punct);

  // "file:line:column: message, found ..." at the current token.
  absl::Status Error(std::string_view message) const;
  absl::Status ErrorAt(FilePosition position, std::string_view message) const;

 private:
  void LexQuoted();
  void Step();

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  FilePosition position_{1, 1};
  Token token_;
  absl::Status status_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_TEXT_LEXER_H_
