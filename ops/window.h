// A window sliding over the spatial dims of [N,C,spatial...]: the geometry that Conv and the pools
// share. One to three spatial dims are all seen as three, with leading dims of size 1.
#ifndef MILLRACE_OPS_WINDOW_H_
#define MILLRACE_OPS_WINDOW_H_

#include <algorithm>
#include <array>

#include "ops/op_def.h"

namespace millrace {

inline constexpr int kMaxSpatial = 3;
using Spatial = std::array<int64_t, kMaxSpatial>;

struct Window {
  int rank = 0;  // spatial dims there really are; they are the last `rank` entries of each array
  Spatial in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  Spatial strides{1, 1, 1}, dilations{1, 1, 1};
  Spatial pads_begin{0, 0, 0}, pads_end{0, 0, 0};  // auto_pad resolved
};

// The window of a node with attributes strides, dilations, pads, auto_pad and, for pools,
// ceil_mode, over an input with dims `in` and a kernel with dims `kernel`. BadInputError when lists
// have the wrong length, numbers are out of range, or the window does not fit.
absl::StatusOr<Window> MakeWindow(const Attrs& attrs, std::span<const int64_t> in,
                                  std::span<const int64_t> kernel);

// The window of a node that puts one at each element of its own input, whose spatial dims are `in`:
// these are `out` here, and `in` are the dims of the node's result. Attributes are those above but
// ceil_mode, output_padding, and output_shape, which overrides pads. `pads_end` is what the last
// place needs.
absl::StatusOr<Window> MakeTransposedWindow(const Attrs& attrs, std::span<const int64_t> in,
                                            std::span<const int64_t> kernel);

// The positions before the end of the last place along dim d, counted from the input's first one.
inline int64_t Reach(const Window& w, int d) {
  return (w.out[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1 - w.pads_begin[d];
}

// The last `rank` entries.
std::vector<int64_t> Dims(const Window& window, const Spatial& values);
int64_t Volume(const Spatial& values);
// [first, second, spatial...]
Shape WithSpatial(int64_t first, int64_t second, std::span<const int64_t> spatial);

// Attribute specs of all window ops: auto_pad, dilations, pads, strides.
std::vector<AttrSpec> WindowAttrs();

// The taps [first, last) of one dim of a window, the first of all its taps lying at `start`.
struct TapRange {
  int64_t first = 0, last = 0, start = 0;
  int64_t count() const { return std::max<int64_t>(0, last - first); }
};

// Along dim d, the taps of the window's place `o` that fall in positions [low, high) of the input.
inline TapRange TapsWithin(const Window& w, int d, int64_t o, int64_t low, int64_t high) {
  const int64_t start = o * w.strides[d] - w.pads_begin[d], step = w.dilations[d];
  const int64_t first = start >= low ? 0 : (low - start + step - 1) / step;
  const int64_t last = start >= high ? 0 : (high - start + step - 1) / step;
  return {first, std::min(last, w.kernel[d]), start};
}

// For each place of the window, in row-major order: f(out, t0, t1, t2) with its row-major position
// and the taps of each dim that fall inside the input.
template <typename F>
void ForEachPlace(const Window& w, F&& f) {
  const auto taps = [&](int d, int64_t o) { return TapsWithin(w, d, o, 0, w.in[d]); };
  int64_t out = 0;
  for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
    const TapRange t0 = taps(0, o0);
    for (int64_t o1 = 0; o1 < w.out[1]; ++o1) {
      const TapRange t1 = taps(1, o1);
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2, ++out) f(out, t0, t1, taps(2, o2));
    }
  }
}

// For each of these taps, in row-major order: f(in, kernel) with both row-major positions.
template <typename F>
void ForEachTapOf(const Window& w, const TapRange& t0, const TapRange& t1, const TapRange& t2,
                  F&& f) {
  for (int64_t k0 = t0.first; k0 < t0.last; ++k0) {
    const int64_t i0 = t0.start + k0 * w.dilations[0];
    for (int64_t k1 = t1.first; k1 < t1.last; ++k1) {
      const int64_t i1 = t1.start + k1 * w.dilations[1];
      for (int64_t k2 = t2.first; k2 < t2.last; ++k2) {
        const int64_t i2 = t2.start + k2 * w.dilations[2];
        f((i0 * w.in[1] + i1) * w.in[2] + i2, (k0 * w.kernel[1] + k1) * w.kernel[2] + k2);
      }
    }
  }
}

// Both: f(out, in, kernel). Padding is never visited.
template <typename F>
void ForEachTap(const Window& w, F&& f) {
  ForEachPlace(w, [&](int64_t out, const TapRange& t0, const TapRange& t1, const TapRange& t2) {
    ForEachTapOf(w, t0, t1, t2, [&](int64_t in, int64_t kernel) { f(out, in, kernel); });
  });
}

}  // namespace millrace

#endif  // MILLRACE_OPS_WINDOW_H_
