// FusedProgram -> CUDA C++: one function for the whole program.
#ifndef MILLRACE_OPS_CUDA_PROGRAM_SOURCE_H_
#define MILLRACE_OPS_CUDA_PROGRAM_SOURCE_H_

#include <optional>
#include <span>
#include <string_view>

#include "graph/fused_program.h"
#include "ops/cuda/cuda_launch.h"

namespace millrace {

// The program has points to compute, and an output. `operands` and `outputs` say where those of the
// program are; their sizes are of the whole operands. Each thread reads an element before it writes
// one of the same place. nullopt: more work than one launch takes.
std::optional<CudaLaunch> ProgramLaunch(const FusedProgram& program, std::string_view name,
                                        std::span<const CudaParam> operands,
                                        std::span<const CudaParam> outputs);

// Whether any output may lie on any operand of its type and size: each element is then read where
// it is written, by the same thread, and before.
bool MayLieInPlace(const FusedProgram& program, std::span<const CudaParam> operands,
                   std::span<const CudaParam> outputs);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_PROGRAM_SOURCE_H_
