#include "graph/layout.h"

namespace millrace {

namespace {
constexpr std::string_view kNames[] = {"strided", "nhwc", "nchw8c", "nchw16c", "packed"};
}

std::string_view LayoutName(Layout layout) { return kNames[static_cast<int>(layout)]; }

std::optional<Layout> ParseLayout(std::string_view name) {
  for (int i = 0; i < 5; ++i) {
    if (kNames[i] == name) return static_cast<Layout>(i);
  }
  return std::nullopt;
}

}  // namespace millrace
