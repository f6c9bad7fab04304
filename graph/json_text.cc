#include "graph/json_text.h"

#include <charconv>
#include <cmath>

#include "graph/assert.h"

namespace millrace {
namespace {

template <typename Float>
void AppendFloat(std::string* to, Float value) {
  if (std::isnan(value)) {
    to->append("\"nan\"");
  } else if (std::isinf(value)) {
    to->append(value < 0 ? "\"-inf\"" : "\"inf\"");
  } else {
    char buffer[32];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
    MILLRACE_CHECK(error == std::errc());
    const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
    to->append(digits);
    if (digits.find_first_of(".e") == std::string_view::npos) to->append(".0");
  }
}

}  // namespace

std::string JsonString(std::string_view s) {
  std::string text;
  AppendJsonString(&text, s);
  return text;
}

void AppendJsonString(std::string* to, std::string_view s) {
  constexpr char kHex[] = "0123456789abcdef";
  to->push_back('"');
  for (const char c : s) {
    switch (c) {
      case '"':
        to->append("\\\"");
        break;
      case '\\':
        to->append("\\\\");
        break;
      case '\b':
        to->append("\\b");
        break;
      case '\f':
        to->append("\\f");
        break;
      case '\n':
        to->append("\\n");
        break;
      case '\r':
        to->append("\\r");
        break;
      case '\t':
        to->append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          to->append("\\u00");
          to->push_back(kHex[c >> 4]);
          to->push_back(kHex[c & 15]);
        } else {
          to->push_back(c);
        }
    }
  }
  to->push_back('"');
}

std::string JsonNumber(double value) {
  std::string text;
  AppendJsonNumber(&text, value);
  return text;
}

void AppendJsonNumber(std::string* to, double value) { AppendFloat(to, value); }
void AppendJsonNumber(std::string* to, float value) { AppendFloat(to, value); }

}  // namespace millrace
