// oneDNN, for Conv, MatMul and Gemm on f32: the only header that knows it is there. Built without
// it (MILLRACE_ONEDNN=OFF) the family matches nothing.
#ifndef MILLRACE_OPS_CPU_ONEDNN_H_
#define MILLRACE_OPS_CPU_ONEDNN_H_

#include "ops/cpu/kernel_family.h"

namespace millrace {

KernelFamily OneDnnFamily();

// "avx512_core", ...: what oneDNN makes code for on this processor; "" without oneDNN.
std::string_view OneDnnIsa();

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_ONEDNN_H_
