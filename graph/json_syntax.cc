// Three looks at the text, the most telling first: is it another kind of file altogether; is it
// what another notation has and JSON lacks (NaN, comments, single quotes, a comma before the end);
// else the parser's message, in plainer words.
#include "graph/json_syntax.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {
namespace {

constexpr size_t kMaxTokenShown = 40;

bool IsWordChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '+' || c == '-' || c == '.';
}

std::string Quoted(std::string_view text) {
  const bool cut = text.size() > kMaxTokenShown;
  return StrCat("'", text.substr(0, kMaxTokenShown), cut ? "..." : "", "'");
}

// --- Other kinds of files -----------------------------------------------------------------------

struct FileKind {
  std::string_view begin;  // of such a file
  std::string_view name;
  std::string_view hint;
};
constexpr FileKind kFileKinds[] = {
    {std::string_view("\x1f\x8b"), "gzip data", "decompress it first"},
    {std::string_view("PK\3\4"), "a zip archive", "unpack it first"},
    {std::string_view("\x93NUMPY"), "a NumPy array (.npy)", ""},
    {std::string_view("\x89PNG"), "a PNG image", ""},
    {std::string_view("\x89HDF"), "an HDF5 file", ""},
    {std::string_view("\x80\x02"), "Python's pickle data", ""},
    {std::string_view("\xff\xfe"), "UTF-16 text", "save it as UTF-8"},
    {std::string_view("\xfe\xff"), "UTF-16 text", "save it as UTF-8"}};

// Text has no such characters; a safetensors file begins with its header's length.
bool IsBinary(std::string_view text) {
  const std::string_view head = text.substr(0, 64);
  return std::any_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && !IsJsonSpace(c);
  });
}

// Its first byte, the low one of its header's length, may pass for a number.
bool IsSafetensors(std::string_view text) {
  return text.size() > 9 && text.substr(3, 6) == std::string_view("\0\0\0\0\0{", 6);
}

bool IsAnotherKindOfFile(std::string_view text, JsonSyntaxError& error) {
  const FileKind* kind = std::find_if(std::begin(kFileKinds), std::end(kFileKinds),
                                      [&](const FileKind& k) { return text.starts_with(k.begin); });
  const bool known = kind != std::end(kFileKinds);
  const bool weights = IsSafetensors(text);
  if (!known && !weights && !IsBinary(text)) return false;
  error.offset = 0;
  error.message = "not JSON";
  error.expected = "text that begins with '{'";
  error.found = known     ? kind->name
                : weights ? "a safetensors file: weights, not a graph"
                          : "binary data";
  if (known) error.hint = kind->hint;
  return true;
}

// --- Other notations ----------------------------------------------------------------------------

std::string_view WordAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsWordChar(text[end])) ++end;
  return text.substr(at, end - at);
}

bool IsAnotherNotation(std::string_view text, JsonSyntaxError& error) {
  const size_t at = static_cast<size_t>(error.offset);
  const std::string_view rest = text.substr(at), word = WordAt(text, at);
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (is({"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "Inf", "-Inf"})) {
    error.message = StrCat("JSON has no ", word);
    error.hint = "write \"nan\", \"inf\" or \"-inf\", in quotes";
  } else if (is({"True", "False", "None"})) {
    error.message = StrCat("JSON has no ", word);
    error.hint = word == "None" ? "write null" : word == "True" ? "write true" : "write false";
  } else if (rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#')) {
    error.message = "JSON has no comments";
    error.hint = "a key that begins with \"x-\" may hold a note";
  } else if (rest.starts_with('\'')) {
    error.message = "a string in single quotes";
    error.expected = "double quotes";
  } else {
    return false;
  }
  return true;
}

// --- The parser's message -----------------------------------------------------------------------

// "... syntax error while parsing value - unexpected ']'; last read: '...'; expected X" without
// what comes before "unexpected", and without what was read.
std::string PlainMessage(std::string_view what) {
  for (const std::string_view prefix : {"] ", ": ", " - "}) {
    const size_t at = what.find(prefix);
    if (at != std::string_view::npos) what.remove_prefix(at + prefix.size());
  }
  std::string message(what);
  const size_t begin = message.find("; last read: '");
  if (begin != std::string::npos) {
    const size_t end = message.rfind("'; expected");
    message.erase(begin, end == std::string::npos || end < begin ? end : end + 1 - begin);
  }
  return message;
}

// What the parser says it expected, in the words of the format.
std::string Expected(std::string_view parser) {
  if (parser == "string literal") return "a key, in double quotes";
  if (parser == "'}'") return "',' or '}'";
  if (parser == "']'") return "',' or ']'";
  if (parser == "end of input") return "the end of the file";
  if (parser.starts_with("'[', '{'")) return "a value";
  return std::string(parser);
}

void UseParserMessage(std::string_view text, int64_t token, int64_t stopped, std::string message,
                      JsonSyntaxError& error) {
  const size_t semicolon = message.find("; expected ");
  if (semicolon != std::string::npos) {
    error.expected = Expected(std::string_view(message).substr(semicolon + 11));
    message.resize(semicolon);
  }
  const std::string_view rest = text.substr(token);
  if (rest.empty()) {
    error.message = "the file ends too early";
  } else if (rest[0] == '\0') {
    error.message = "unexpected zero byte";
  } else if (message.starts_with("unexpected ")) {
    const size_t before = text.substr(0, token).find_last_not_of(" \n\t\r");
    const std::string_view word = WordAt(text, token);
    error.message = StrCat("unexpected ", word.empty() ? Quoted(rest.substr(0, 1)) : Quoted(word));
    if (rest[0] == '"') error.message = "unexpected string";
    const bool after_comma = before != std::string_view::npos && text[before] == ',';
    if (after_comma && (rest[0] == '}' || rest[0] == ']')) error.hint = "a ',' too many before it";
  } else if (message.starts_with("invalid string: missing closing quote")) {
    error.message = "a string without an end";
    error.expected = "'\"' on the same line";
  } else if (message.starts_with("invalid string: ill-formed UTF-8")) {
    error.offset = stopped;
    error.message = "the string is not UTF-8";
    error.expected = "";
    error.found = StrCat("byte ", static_cast<int>(static_cast<unsigned char>(text[stopped])));
  } else if (message.starts_with("invalid string: ")) {
    error.offset = stopped;
    error.message = message.substr(16);
    error.expected = "";
  } else if (message.starts_with("number overflow")) {
    error.message = "the number is too large for 64 bits";
    error.found = Quoted(WordAt(text, token));
  } else if (message.starts_with("invalid number")) {
    error.message = StrCat("malformed number ", Quoted(WordAt(text, token)));
    if (message.size() > 16) error.expected = message.substr(message.find("expected ") + 9);
  } else {  // invalid literal
    const std::string_view word = WordAt(text, token);
    error.message = StrCat("unexpected ", Quoted(word.empty() ? rest.substr(0, 1) : word));
    if (error.expected.empty()) error.expected = "a value";
  }
}

}  // namespace

JsonSyntaxError ExplainSyntaxError(std::string_view text, int64_t token, int64_t stopped,
                                   std::string_view what) {
  const int64_t size = static_cast<int64_t>(text.size());
  token = std::clamp<int64_t>(token, 0, size);
  stopped = std::clamp<int64_t>(stopped, 0, size);
  token = std::min(token, stopped);
  JsonSyntaxError error;
  error.offset = token;
  if (text.substr(0, token).find_first_not_of(" \n\t\r\xEF\xBB\xBF") == std::string_view::npos) {
    if (token == size) {
      error.message = size == 0 ? "the file is empty" : "there is nothing in the file";
      error.expected = "a JSON object";
      return error;
    }
    if (IsAnotherKindOfFile(text, error)) return error;
  }
  if (IsSafetensors(text) && IsAnotherKindOfFile(text, error)) return error;
  if (token < size && IsAnotherNotation(text, error)) return error;
  UseParserMessage(text, token, stopped, PlainMessage(what), error);
  return error;
}

}  // namespace millrace
