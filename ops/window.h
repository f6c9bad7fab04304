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

// The last `rank` entries.
std::vector<int64_t> Dims(const Window& window, const Spatial& values);
int64_t Volume(const Spatial& values);

// Attribute specs of all window ops: auto_pad, dilations, pads, strides.
std::vector<AttrSpec> WindowAttrs();

// For each place of the window and each of its taps that falls inside the input, in row-major
// order: f(out, in, kernel) with the three row-major spatial positions. Padding is never visited.
template <typename F>
void ForEachTap(const Window& w, F&& f) {
  // Along one dim, the taps [first, last) of the window at `o` that fall inside.
  const auto taps = [&](int d, int64_t o) {
    const int64_t start = o * w.strides[d] - w.pads_begin[d];
    const int64_t step = w.dilations[d];
    const int64_t first = start >= 0 ? 0 : (-start + step - 1) / step;
    const int64_t last = start >= w.in[d] ? 0 : (w.in[d] - start + step - 1) / step;
    return std::array<int64_t, 3>{first, std::min(last, w.kernel[d]), start};
  };
  int64_t out = 0;
  for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
    const auto t0 = taps(0, o0);
    for (int64_t o1 = 0; o1 < w.out[1]; ++o1) {
      const auto t1 = taps(1, o1);
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2, ++out) {
        const auto t2 = taps(2, o2);
        for (int64_t k0 = t0[0]; k0 < t0[1]; ++k0) {
          const int64_t i0 = t0[2] + k0 * w.dilations[0];
          for (int64_t k1 = t1[0]; k1 < t1[1]; ++k1) {
            const int64_t i1 = t1[2] + k1 * w.dilations[1];
            for (int64_t k2 = t2[0]; k2 < t2[1]; ++k2) {
              const int64_t i2 = t2[2] + k2 * w.dilations[2];
              f(out, (i0 * w.in[1] + i1) * w.in[2] + i2,
                (k0 * w.kernel[1] + k1) * w.kernel[2] + k2);
            }
          }
        }
      }
    }
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_WINDOW_H_
