// The families, one per file of this folder.
#ifndef MILLRACE_OPS_CUDA_CUDA_FAMILIES_H_
#define MILLRACE_OPS_CUDA_CUDA_FAMILIES_H_

#include "ops/cuda/cuda_family.h"

namespace millrace {

CudaFamily CudaProgramFamily();    // program_family.cc
CudaFamily CudaMoveFamily();       // program_family.cc
CudaFamily CudaOptimizerFamily();  // program_family.cc

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_FAMILIES_H_
