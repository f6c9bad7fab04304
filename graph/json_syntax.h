// What is wrong with a text that is not JSON, for its author: the parser knows where it stopped,
// not what was meant.
#ifndef MILLRACE_GRAPH_JSON_SYNTAX_H_
#define MILLRACE_GRAPH_JSON_SYNTAX_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

struct JsonSyntaxError {
  int64_t offset = 0;  // in the text, at most its size
  std::string message, expected, found, hint;
};

// `token`: where the token begins that the parser could not take; `stopped`: where it gave up.
// `what`: its own message, "[json.exception...] parse error at ...: syntax error while parsing
// value - unexpected ']'; expected '[', '{', or a literal".
JsonSyntaxError ExplainSyntaxError(std::string_view text, int64_t token, int64_t stopped,
                                   std::string_view what);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_JSON_SYNTAX_H_
