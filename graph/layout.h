// Layout: how a value's elements lie within its slice. A closed enum: planners, checker and kernels
// know every member.
#ifndef MILLRACE_GRAPH_LAYOUT_H_
#define MILLRACE_GRAPH_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace {

enum class Layout : uint8_t {
  kStrided,   // logical dims with element strides; row-major when a slice gives no strides
  kNHWC,      // rank 4 NCHW value stored channels-last (NDHWC for rank 5)
  kNChw8c,    // channels blocked by 8, padded with zeros
  kNChw16c,   // channels blocked by 16, padded with zeros
  kPacked,    // opaque to all but the kernel variant that packed it
};

std::string_view LayoutName(Layout layout);  // "strided", "nhwc", "nchw8c", "nchw16c", "packed"
std::optional<Layout> ParseLayout(std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_LAYOUT_H_
