#include "ops/cpu/window_spec.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 30;  // so that sums and offsets of a few do not overflow

}  // namespace

std::optional<WindowSpec> WindowSpecOf(const Attrs& attrs, const Shape& in, const Shape& out,
                                       std::span<const int64_t> kernel) {
  WindowSpec spec;
  spec.rank = in.rank() - 2;
  const size_t rank = static_cast<size_t>(std::max(spec.rank, 0));
  const std::vector<int64_t> strides = attrs.Ints("strides"), dilations = attrs.Ints("dilations"),
                             pads = attrs.Ints("pads");
  if (spec.rank < 1 || spec.rank > kMaxSpatialDims || out.rank() != in.rank() ||
      kernel.size() != rank || (!strides.empty() && strides.size() != rank) ||
      (!dilations.empty() && dilations.size() != rank) ||
      (!pads.empty() && pads.size() != 2 * rank)) {
    return std::nullopt;
  }
  const std::string auto_pad = attrs.String("auto_pad", "NOTSET");
  for (int i = 0; i < spec.rank; ++i) {
    WindowDim& d = spec.dims[i];
    d.in = in[i + 2];
    d.out = out[i + 2];
    d.kernel = kernel[i];
    if (!strides.empty()) d.stride = strides[i];
    if (!dilations.empty()) d.dilation = dilations[i];
    // Input positions, counted from the start of the padding, up to the end of the last window.
    const int64_t reach = (d.out - 1) * d.stride + (d.kernel - 1) * d.dilation + 1;
    const int64_t total = std::max<int64_t>(reach - d.in, 0);
    if (auto_pad == "SAME_UPPER") {
      d.pad_begin = total / 2;
    } else if (auto_pad == "SAME_LOWER") {
      d.pad_begin = total - total / 2;
    } else if (auto_pad != "VALID" && !pads.empty()) {
      d.pad_begin = pads[i];
    }
    d.pad_end = std::max<int64_t>(reach - d.in - d.pad_begin, 0);
    for (int64_t size : {d.in, d.out, d.kernel, d.stride, d.dilation}) {
      if (size < 1 || size > kMaxSize) return std::nullopt;
    }
    if (d.pad_begin < 0 || d.pad_begin > kMaxSize || d.pad_end > kMaxSize) return std::nullopt;
  }
  return spec;
}

}  // namespace millrace
