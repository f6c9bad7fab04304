// Pools and their gradients: a thread for each element of the result. NaN is larger than any
// number, the first of equals wins.
#ifndef MILLRACE_OPS_CUDA_DEVICE_POOL_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_POOL_CUH_

#include "window.cuh"

namespace millrace {

template <typename T>
__device__ inline bool IsLarger(T a, T b) {
  return a > b || (a != a && b == b);
}

// The first of the largest elements under the window at place `out`; -1: all of it is padding.
template <WindowShape kWindow, typename T>
__device__ inline i64 LargestAt(const T* x, i64 out) {
  i64 best = -1;
  Native<T> largest = 0;
  ForEachTapOfPlace<kWindow>(out, [&](i64 in, i64) {
    const Native<T> value = ToNative(x[in]);
    if (best < 0 || IsLarger(value, largest)) {
      best = in;
      largest = value;
    }
  });
  return best;
}

// y and indices may each be null. Indices count over the whole of x.
template <WindowShape kWindow, typename T>
__device__ inline void MaxPool(const T* x, T* y, i64* indices, i64 channels, bool column_major) {
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= channels * kOut) return;
  const i64 channel = i / kOut;
  const i64 best = LargestAt<kWindow>(x + channel * kIn, i % kOut);
  if (y != nullptr) {
    T lowest;
    if constexpr (kIsFloat<T>) {
      lowest = Convert<T>(-Infinity<Native<T>>());
    } else {
      lowest = SmallestInteger<T>();
    }
    y[i] = best < 0 ? lowest : x[channel * kIn + best];
  }
  if (indices == nullptr) return;
  i64 place = best;
  if (column_major) {
    const i64 i2 = best % kWindow.in[2], i1 = best / kWindow.in[2] % kWindow.in[1];
    place = (i2 * kWindow.in[1] + i1) * kWindow.in[0] + best / kWindow.in[2] / kWindow.in[1];
  }
  indices[i] = best < 0 ? -1 : channel * kIn + place;
}

// Each place that chose this position gives it its dy: the maxima are looked for again.
template <WindowShape kWindow, typename T>
__device__ inline void MaxPoolGradient(const T* dy, const T* x, T* dx, i64 channels) {
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= channels * kIn) return;
  const i64 channel = i / kIn, own = i % kIn;
  Native<T> sum = 0;
  ForEachPlaceOfTap<kWindow>(own, [&](i64 out, i64) {
    if (LargestAt<kWindow>(x + channel * kIn, out) == own) {
      sum += ToNative(dy[channel * kOut + out]);
    }
  });
  dx[i] = Convert<T>(sum);
}

// How many taps count at a place: those within the padded input, or within the input.
template <WindowShape kWindow>
__device__ inline i64 CountedTaps(i64 out, bool with_padding) {
  const i64 places[3] = {out / kWindow.out[2] / kWindow.out[1],
                         out / kWindow.out[2] % kWindow.out[1], out % kWindow.out[2]};
  i64 count = 1;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    i64 own = 0;
    for (i64 k = 0; k < kWindow.kernel[d]; ++k) {
      const i64 at = places[d] * kWindow.strides[d] - kWindow.pads[d] + k * kWindow.dilations[d];
      const bool inside = at >= 0 && at < kWindow.in[d];
      if (with_padding ? at < kWindow.in[d] + kWindow.pads_end[d] : inside) ++own;
    }
    count *= own;
  }
  return count;
}

template <WindowShape kWindow, typename T>
__device__ inline void AveragePool(const T* x, T* y, i64 channels, bool with_padding) {
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= channels * kOut) return;
  Native<T> sum = 0;
  ForEachTapOfPlace<kWindow>(i % kOut,
                             [&](i64 in, i64) { sum += ToNative(x[i / kOut * kIn + in]); });
  const i64 taps = CountedTaps<kWindow>(i % kOut, with_padding);
  y[i] = Convert<T>(taps == 0 ? Native<T>(0) : sum / static_cast<Native<T>>(taps));
}

template <WindowShape kWindow, typename T>
__device__ inline void AveragePoolGradient(const T* dy, T* dx, i64 channels,
                                           bool with_padding) {
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= channels * kIn) return;
  Native<T> sum = 0;
  ForEachPlaceOfTap<kWindow>(i % kIn, [&](i64 out, i64) {
    const i64 taps = CountedTaps<kWindow>(out, with_padding);
    if (taps > 0) sum += ToNative(dy[i / kIn * kOut + out]) / static_cast<Native<T>>(taps);
  });
  dx[i] = Convert<T>(sum);
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_POOL_CUH_
