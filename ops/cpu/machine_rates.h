// What this processor can do at most: arithmetic and memory traffic, by loops that do nothing else.
// `millrace profile` measures with them.
#ifndef MILLRACE_OPS_CPU_MACHINE_RATES_H_
#define MILLRACE_OPS_CPU_MACHINE_RATES_H_

#include <cstdint>

#include "graph/types.h"

namespace millrace {

// Multiply-adds of whole vectors on registers, `rounds` times on each of `threads` threads. Returns
// the floating-point operations done, 2 a multiply-add. `dtype`: kF32 or kF64.
double BurnFlops(DType dtype, int64_t rounds, int threads);

// to[i] = from[i] * 2 over `count` floats, divided among the threads. Reads 4 bytes and writes 4 an
// element.
void StreamFloats(const float* from, float* to, int64_t count, int threads);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_MACHINE_RATES_H_
