// A window sliding over three spatial dims (ops/window.h).
#ifndef MILLRACE_OPS_CUDA_DEVICE_WINDOW_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_WINDOW_CUH_

#include "scalar.cuh"

namespace millrace {

struct WindowShape {
  i64 in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  i64 strides[3] = {1, 1, 1}, dilations[3] = {1, 1, 1};
  i64 pads[3] = {}, pads_end[3] = {};
};

__device__ constexpr i64 VolumeOf(const i64 (&dims)[3]) { return dims[0] * dims[1] * dims[2]; }

// The input position under tap `tap` at place `out` along dim d; -1: in the padding.
template <WindowShape kWindow>
__device__ inline i64 PositionOf(int d, i64 out, i64 tap) {
  const i64 at = out * kWindow.strides[d] - kWindow.pads[d] + tap * kWindow.dilations[d];
  return at >= 0 && at < kWindow.in[d] ? at : -1;
}

// f(in, tap), row-major positions both, for each tap of a place that is not in the padding, in
// order.
template <WindowShape kWindow, typename F>
__device__ inline void ForEachTapOfPlace(i64 out, F&& f) {
  const i64 o2 = out % kWindow.out[2], o1 = out / kWindow.out[2] % kWindow.out[1];
  const i64 o0 = out / kWindow.out[2] / kWindow.out[1];
  for (i64 k0 = 0; k0 < kWindow.kernel[0]; ++k0) {
    const i64 i0 = PositionOf<kWindow>(0, o0, k0);
    if (i0 < 0) continue;
    for (i64 k1 = 0; k1 < kWindow.kernel[1]; ++k1) {
      const i64 i1 = PositionOf<kWindow>(1, o1, k1);
      if (i1 < 0) continue;
      for (i64 k2 = 0; k2 < kWindow.kernel[2]; ++k2) {
        const i64 i2 = PositionOf<kWindow>(2, o2, k2);
        if (i2 < 0) continue;
        f((i0 * kWindow.in[1] + i1) * kWindow.in[2] + i2,
          (k0 * kWindow.kernel[1] + k1) * kWindow.kernel[2] + k2);
      }
    }
  }
}

// The input position under a tap at a place, both row-major; -1: in the padding.
template <WindowShape kWindow>
__device__ inline i64 InputOfTap(i64 out, i64 tap) {
  const i64 i2 = PositionOf<kWindow>(2, out % kWindow.out[2], tap % kWindow.kernel[2]);
  const i64 i1 = PositionOf<kWindow>(1, out / kWindow.out[2] % kWindow.out[1],
                                     tap / kWindow.kernel[2] % kWindow.kernel[1]);
  const i64 i0 = PositionOf<kWindow>(0, out / kWindow.out[2] / kWindow.out[1],
                                     tap / kWindow.kernel[2] / kWindow.kernel[1]);
  return i0 < 0 || i1 < 0 || i2 < 0 ? -1 : (i0 * kWindow.in[1] + i1) * kWindow.in[2] + i2;
}

// The place along dim d at which tap `tap` is over input position `in`; -1: none.
template <WindowShape kWindow>
__device__ inline i64 PlaceOf(int d, i64 in, i64 tap) {
  const i64 from_start = in + kWindow.pads[d] - tap * kWindow.dilations[d];
  const i64 place = from_start / kWindow.strides[d];
  const bool there = from_start >= 0 && place * kWindow.strides[d] == from_start;
  return there && place < kWindow.out[d] ? place : -1;
}

// f(out, tap) for each place and tap that is over a position of the input, in the order of taps.
template <WindowShape kWindow, typename F>
__device__ inline void ForEachPlaceOfTap(i64 in, F&& f) {
  const i64 i2 = in % kWindow.in[2], i1 = in / kWindow.in[2] % kWindow.in[1];
  const i64 i0 = in / kWindow.in[2] / kWindow.in[1];
  for (i64 k0 = 0; k0 < kWindow.kernel[0]; ++k0) {
    const i64 o0 = PlaceOf<kWindow>(0, i0, k0);
    if (o0 < 0) continue;
    for (i64 k1 = 0; k1 < kWindow.kernel[1]; ++k1) {
      const i64 o1 = PlaceOf<kWindow>(1, i1, k1);
      if (o1 < 0) continue;
      for (i64 k2 = 0; k2 < kWindow.kernel[2]; ++k2) {
        const i64 o2 = PlaceOf<kWindow>(2, i2, k2);
        if (o2 < 0) continue;
        f((o0 * kWindow.out[1] + o1) * kWindow.out[2] + o2,
          (k0 * kWindow.kernel[1] + k1) * kWindow.kernel[2] + k2);
      }
    }
  }
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_WINDOW_CUH_
