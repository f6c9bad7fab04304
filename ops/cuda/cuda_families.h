// The families, one per file of this folder.
#ifndef MILLRACE_OPS_CUDA_CUDA_FAMILIES_H_
#define MILLRACE_OPS_CUDA_CUDA_FAMILIES_H_

#include "ops/cuda/cuda_family.h"
#include "ops/fused_product.h"

namespace millrace {

CudaFamily CudaProgramFamily();             // program_family.cc
CudaFamily CudaMoveFamily();                // program_family.cc
CudaFamily CudaOptimizerFamily();           // program_family.cc
CudaFamily CudaLibraryConvolutionFamily();  // convolution_family.cc
CudaFamily CudaLibraryMatMulFamily();       // matmul_family.cc
CudaFamily CudaPoolFamily();                // pool_family.cc
CudaFamily CudaGatherFamily();              // gather_family.cc
CudaFamily CudaRandomFamily();              // random_family.cc
CudaFamily CudaContractionFamily();         // contraction_family.cc

// The plain product's work with the epilogue as a launch after it: the plain result goes to
// scratch.
std::optional<CudaWork> WithEpilogue(const FusedProduct& product, const NodeQuery& query,
                                     CudaWork plain, std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_CUDA_FAMILIES_H_
