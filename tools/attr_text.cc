#include "tools/attr_text.h"

#include <type_traits>

#include "absl/strings/str_join.h"
#include "graph/strings.h"

namespace millrace {

std::string AttrText(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return StrCat("\"", v, "\"");
        } else if constexpr (std::is_arithmetic_v<T>) {
          return StrCat(v);
        } else {
          return StrCat("[", absl::StrJoin(v, ", "), "]");
        }
      },
      value);
}

}  // namespace millrace
