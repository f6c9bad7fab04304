#include "runtime/host_call.h"

#include "graph/strings.h"

namespace millrace {
namespace {

bool Fits(const Shape& shape, const Shape& bound, bool bounded) {
  if (!bounded) return shape == bound;
  if (shape.rank() != bound.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 0 || shape[i] > bound[i]) return false;
  }
  return true;
}

absl::Status RunKernel(const HostStep& step) {
  KernelArgs args;
  args.inputs = step.inputs.data();
  args.outputs = step.outputs.data();
  if (step.true_shapes) {
    args.input_shapes = step.input_shapes.data();
    args.output_shapes = step.output_shapes.data();
  }
  MILLRACE_RETURN_IF_ERROR(step.kernel->Run(args));
  for (size_t i = 0; i < step.output_bounds.size(); ++i) {
    const Shape* shape = step.output_shapes[i];
    if (shape == nullptr || Fits(*shape, step.output_bounds[i], step.output_bounded[i])) continue;
    return InternalError(StrCat("output ", i, " has shape ", ToString(*shape), ", its ",
                                step.output_bounded[i] ? "bound" : "type", " is ",
                                ToString(step.output_bounds[i])));
  }
  return absl::OkStatus();
}

}  // namespace

Shape* ShapeCellOf(ShapeCells& cells, const ValueRef& value, int32_t microbatch,
                   const Shape& bound) {
  return &cells.try_emplace({value, microbatch}, bound).first->second;
}

void MakeKernelCall(HostStep& step) {
  step.function = [s = &step] { return RunKernel(*s); };
}

void MakeShapeMoves(HostStep& step) {
  step.function = [s = &step] {
    for (const auto& [to, from] : s->moves) *to = *from;
    return absl::OkStatus();
  };
}

}  // namespace millrace
