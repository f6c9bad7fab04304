// Which instruction sets Highway compiles our kernels for. Included before any Highway header, by
// every file that uses it. Left out: targets that add nothing for f32 loops, to build faster.
#ifndef MILLRACE_OPS_CPU_SIMD_TARGETS_H_
#define MILLRACE_OPS_CPU_SIMD_TARGETS_H_

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif

#endif  // MILLRACE_OPS_CPU_SIMD_TARGETS_H_
