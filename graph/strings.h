// std::string_view is the project's string view. Some distributions (Debian 12) build Abseil with a
// string_view type of its own, to which std::string_view does not convert: these wrappers of
// Abseil's string functions accept both. Use StrCat and StrAppend from here, and AbslView where an
// Abseil function or hash table wants its own view.
#ifndef MILLRACE_GRAPH_STRINGS_H_
#define MILLRACE_GRAPH_STRINGS_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace {

inline absl::string_view AbslView(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view StdView(absl::string_view s) { return {s.data(), s.size()}; }

namespace internal {
template <typename T>
decltype(auto) StrCatArg(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return AbslView(value);
  } else {
    return (value);
  }
}
}  // namespace internal

template <typename... Args>
[[nodiscard]] std::string StrCat(const Args&... args) {
  return absl::StrCat(internal::StrCatArg(args)...);
}

template <typename... Args>
void StrAppend(std::string* to, const Args&... args) {
  absl::StrAppend(to, internal::StrCatArg(args)...);
}

}  // namespace millrace

#endif  // MILLRACE_GRAPH_STRINGS_H_
