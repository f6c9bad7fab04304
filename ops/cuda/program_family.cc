// Families whose kernels are generated from fused programs (node_programs.h).
#include "ops/cuda/cuda_families.h"
#include "ops/cuda/node_programs.h"

namespace millrace {
namespace {

using StepsFn = std::optional<ProgramSteps> (*)(const NodeQuery& query);

template <StepsFn kSteps>
std::optional<CudaWork> WorkBy(const NodeQuery& query) {
  std::optional<ProgramSteps> steps = kSteps(query);
  if (!steps.has_value()) return std::nullopt;
  return WorkOfSteps(*std::move(steps), FunctionNameOf(query.op));
}

std::optional<ProgramSteps> ComputedSteps(const NodeQuery& query) {
  if (query.op == "fused.Program") return FusedSteps(query);
  for (const StepsFn steps : {FormulaSteps, ViewSteps, LossProgramSteps}) {
    if (std::optional<ProgramSteps> found = steps(query)) return found;
  }
  return std::nullopt;
}

}  // namespace

CudaFamily CudaProgramFamily() { return {"program", WorkBy<ComputedSteps>}; }
CudaFamily CudaMoveFamily() { return {"move", WorkBy<MoveSteps>}; }
CudaFamily CudaOptimizerFamily() { return {"optimizer", WorkBy<OptimizerSteps>}; }

}  // namespace millrace
