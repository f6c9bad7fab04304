// Nodes as fused programs: what has a scalar or row form (ops/scalar_program.h), what moves
// elements from strides to strides, optimizers, batch normalization. No op of these needs a kernel
// of its own.
#ifndef MILLRACE_OPS_CUDA_NODE_PROGRAMS_H_
#define MILLRACE_OPS_CUDA_NODE_PROGRAMS_H_

#include <optional>
#include <vector>

#include "graph/fused_program.h"
#include "ops/cuda/cuda_launch.h"

namespace millrace {

// One launch: a program and where its operands and outputs are.
struct ProgramStep {
  FusedProgram program;
  std::vector<CudaParam> operands, outputs;
};
struct ProgramSteps {
  std::vector<ProgramStep> steps;  // in stream order
  int64_t scratch_bytes = 0;
};

// Each takes queries as NormalizeQuery leaves them, with at least one output that has elements, and
// gives nullopt for those it has no programs for.
std::optional<ProgramSteps> FusedSteps(const NodeQuery& query);        // fused.Program
std::optional<ProgramSteps> FormulaSteps(const NodeQuery& query);      // scalar and row forms
std::optional<ProgramSteps> MoveSteps(const NodeQuery& query);         // move_programs.cc
std::optional<ProgramSteps> OptimizerSteps(const NodeQuery& query);    // optimizer_programs.cc
std::optional<ProgramSteps> LossProgramSteps(const NodeQuery& query);  // loss_programs.cc
std::optional<ProgramSteps> ViewSteps(const NodeQuery& query);         // view_programs.cc

// The steps as launches of functions whose names begin with `name`. A step that reduces a few long
// rows is done in two, so that all of the GPU takes part.
std::optional<CudaWork> WorkOfSteps(ProgramSteps steps, std::string_view name);

}  // namespace millrace

#endif  // MILLRACE_OPS_CUDA_NODE_PROGRAMS_H_
