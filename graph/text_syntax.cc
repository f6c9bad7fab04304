#include "graph/text_syntax.h"

#include <algorithm>
#include <iterator>

#include "graph/json_text.h"

namespace millrace {
namespace {

constexpr std::string_view kLineWords[] = {
    "graph", "producer", "opset",  "symbol", "weights",  "mesh", "input",     "param",
    "const", "update",   "output", "dims",   "sharding", "doc",  "extension", "_",
};
constexpr std::string_view kInitKinds[] = {"zeros",  "ones",      "uniform",
                                           "normal", "he_normal", "xavier_uniform"};

}  // namespace

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool IsNameChar(char c) {
  return IsNameStart(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
}

std::string NameText(std::string_view name) {
  const bool is_word =
      std::find(std::begin(kLineWords), std::end(kLineWords), name) != std::end(kLineWords) ||
      ParseDType(name).has_value();
  const bool bare = !name.empty() && IsNameStart(name[0]) &&
                    std::all_of(name.begin(), name.end(), IsNameChar) && !is_word;
  return bare ? std::string(name) : QuoteText(name);
}

std::string QuoteText(std::string_view text) { return JsonString(text); }

namespace {

// As in JSON, but without the quotes of "nan" and its like.
template <typename T>
std::string Unquoted(T value) {
  std::string s;
  AppendJsonNumber(&s, value);
  return s[0] == '"' ? s.substr(1, s.size() - 2) : s;
}

}  // namespace

std::string NumberText(double value) { return Unquoted(value); }
std::string NumberText(float value) { return Unquoted(value); }

std::string_view InitKindText(InitKind kind) { return kInitKinds[static_cast<int>(kind)]; }

std::optional<InitKind> ParseInitKind(std::string_view text) {
  for (size_t i = 0; i < std::size(kInitKinds); ++i) {
    if (kInitKinds[i] == text) return static_cast<InitKind>(i);
  }
  return std::nullopt;
}

}  // namespace millrace
