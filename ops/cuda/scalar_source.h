// One instruction of a fused program as a CUDA C++ expression (device/scalar.cuh).
#ifndef MILLRACE_OPS_CUDA_SCALAR_SOURCE_H_
#define MILLRACE_OPS_CUDA_SCALAR_SOURCE_H_

#include <string>

#include "graph/fused_program.h"

namespace millrace {

// "t3": the variable that holds the result of instruction `i`.
std::string ValueName(int32_t i);
// The constant `value`, as Cast converts it to `dtype`.
std::string ConstantSource(DType dtype, double value);
// The result of instruction `i`, of earlier ones by their names. Not for loads, indices and
// reductions, whose meaning depends on where they stand.
std::string ExpressionSource(const FusedProgram& program, int32_t i);
// "SumOf", of a reduction.
std::string_view ReductionName(ScalarOp op);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_SCALAR_SOURCE_H_
