// What a FusedProgram means, computed on the host: obvious, slow, right. Kernels are compared with
// it, and it is the reference of fused ops.
#ifndef MILLRACE_OPS_FUSED_REFERENCE_H_
#define MILLRACE_OPS_FUSED_REFERENCE_H_

#include <span>

#include "graph/fused_program.h"
#include "graph/status.h"
#include "graph/tensor.h"

namespace millrace {

// Every output of `program`, written where its strides say. `inputs[i]` is operand i; an output
// without data is not wanted. All that the program reads and writes lies within them
// (CheckFusedOperands). Floats below f64 are computed as the references of the same ops compute
// them: rounded after each instruction, sums of a reduction kept in f64.
absl::Status EvaluateFusedProgram(const FusedProgram& program, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs);

// Whether operands and outputs of these types hold all that the program reads and writes, and every
// element of every output is written once. BadInputError: "operand @1 reads element 64 of
// f32[8,8]".
absl::Status CheckFusedOperands(const FusedProgram& program, std::span<const TensorType> inputs,
                                std::span<const TensorType> outputs);

}  // namespace millrace

#endif  // MILLRACE_OPS_FUSED_REFERENCE_H_
