// Convolutions the direct way, a thread or a block for each element of the result: for types and
// shapes that no library serves, and for machines without one.
#ifndef MILLRACE_OPS_CUDA_DEVICE_CONVOLUTION_CUH_
#define MILLRACE_OPS_CUDA_DEVICE_CONVOLUTION_CUH_

#include "reduce.cuh"
#include "window.cuh"

namespace millrace {

// Channels are of a group. X is [batch, groups * in, window.in], W [groups * out, in,
// window.kernel], Y [batch, groups * out, window.out].
struct ConvolutionShape {
  WindowShape window;
  i64 batch = 1, groups = 1, in_channels = 1, out_channels = 1;
};

// y = conv(x, w) + bias, which may be null.
template <ConvolutionShape kShape, typename T>
__device__ inline void ConvolutionForward(const T* x, const T* w, const T* bias, T* y) {
  constexpr WindowShape kWindow = kShape.window;
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  constexpr i64 kTaps = VolumeOf(kWindow.kernel);
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= kShape.batch * kShape.groups * kShape.out_channels * kOut) return;
  const i64 channel = i / kOut % (kShape.groups * kShape.out_channels);
  const i64 image = i / kOut / (kShape.groups * kShape.out_channels);
  const i64 group = channel / kShape.out_channels;
  x += (image * kShape.groups + group) * kShape.in_channels * kIn;
  w += channel * kShape.in_channels * kTaps;
  Native<T> sum = bias == nullptr ? Native<T>(0) : ToNative(bias[channel]);
  ForEachTapOfPlace<kWindow>(i % kOut, [&](i64 in, i64 tap) {
    for (i64 c = 0; c < kShape.in_channels; ++c) {
      sum += ToNative(x[c * kIn + in]) * ToNative(w[c * kTaps + tap]);
    }
  });
  y[i] = Convert<T>(sum);
}

// dx = the transpose of conv(., w) applied to dy, + bias, which may be null.
template <ConvolutionShape kShape, typename T>
__device__ inline void ConvolutionInput(const T* dy, const T* w, const T* bias, T* dx) {
  constexpr WindowShape kWindow = kShape.window;
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  constexpr i64 kTaps = VolumeOf(kWindow.kernel);
  const i64 i = static_cast<i64>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= kShape.batch * kShape.groups * kShape.in_channels * kIn) return;
  const i64 channel = i / kIn % (kShape.groups * kShape.in_channels);
  const i64 image = i / kIn / (kShape.groups * kShape.in_channels);
  const i64 group = channel / kShape.in_channels, own = channel % kShape.in_channels;
  dy += (image * kShape.groups + group) * kShape.out_channels * kOut;
  w += (group * kShape.out_channels * kShape.in_channels + own) * kTaps;
  Native<T> sum = bias == nullptr ? Native<T>(0) : ToNative(bias[channel]);
  ForEachPlaceOfTap<kWindow>(i % kIn, [&](i64 out, i64 tap) {
    for (i64 m = 0; m < kShape.out_channels; ++m) {
      sum += ToNative(dy[m * kOut + out]) * ToNative(w[m * kShape.in_channels * kTaps + tap]);
    }
  });
  dx[i] = Convert<T>(sum);
}

// dw[m, c, tap] = the sum over images and places of dy times x. A block for each element.
template <ConvolutionShape kShape, typename T>
__device__ inline void ConvolutionWeight(const T* x, const T* dy, T* dw) {
  constexpr WindowShape kWindow = kShape.window;
  constexpr i64 kIn = VolumeOf(kWindow.in), kOut = VolumeOf(kWindow.out);
  constexpr i64 kTaps = VolumeOf(kWindow.kernel);
  const i64 i = blockIdx.x;
  const i64 tap = i % kTaps, c = i / kTaps % kShape.in_channels;
  const i64 channel = i / kTaps / kShape.in_channels, group = channel / kShape.out_channels;
  Native<T> sum = 0;
  for (i64 at = threadIdx.x; at < kShape.batch * kOut; at += 256) {
    const i64 image = at / kOut, out = at % kOut;
    const i64 in = InputOfTap<kWindow>(out, tap);
    if (in < 0) continue;
    sum += ToNative(dy[(image * kShape.groups * kShape.out_channels + channel) * kOut + out]) *
           ToNative(x[((image * kShape.groups + group) * kShape.in_channels + c) * kIn + in]);
  }
  sum = ReduceBlock<SumOf, 256>(sum);
  if (threadIdx.x == 0) dw[i] = Convert<T>(sum);
}

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_DEVICE_CONVOLUTION_CUH_
