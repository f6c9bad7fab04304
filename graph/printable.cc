#include "graph/printable.h"

#include <algorithm>
#include <cstdint>

namespace millrace {
namespace {

// The character that `text` begins with, and its size in bytes; size 0: not UTF-8 (RFC 3629).
struct Utf8Character {
  uint32_t code = 0;
  size_t size = 0;
};
Utf8Character FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t size = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (size == 1) return {byte(0), 1};
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < size) return {};
  uint32_t code = byte(0) & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kSmallest[size] || code > 0x10FFFF || surrogate ? Utf8Character{}
                                                                : Utf8Character{code, size};
}

// Moves the cursor, ends a line, or reorders what stands around it.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void AppendEscaped(std::string* to, uint32_t code) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (code) {
    case '\n':
      to->append("\\n");
      return;
    case '\r':
      to->append("\\r");
      return;
    case '\t':
      to->append("\\t");
      return;
    default:
      break;
  }
  to->append(code < 0x100 ? "\\x" : "\\u");
  for (int shift = code < 0x100 ? 4 : 12; shift >= 0; shift -= 4) {
    to->push_back(kHex[code >> shift & 15]);
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string s;
  s.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character c = FirstCharacter(text);
    if (c.size == 0) {
      AppendEscaped(&s, static_cast<unsigned char>(text[0]));
    } else if (IsControl(c.code)) {
      AppendEscaped(&s, c.code);
    } else {
      s.append(text.substr(0, c.size));
    }
    text.remove_prefix(std::max<size_t>(c.size, 1));
  }
  return s;
}

}  // namespace millrace
