#include <cstring>

#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(c.input(1).shape, c.input(2).shape));
  MILLRACE_ASSIGN_OR_RETURN(shape, BroadcastShapes(c.input(0).shape, shape));
  c.set_output(0, {c.input(1).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& space = c.outputs[0].shape();
  const bool* condition = c.inputs[0].data<bool>().data();
  const int64_t size = SizeOf(c.outputs[0].dtype());
  std::byte* to = c.outputs[0].mutable_bytes();
  WalkIndices<4>(
      space,
      {BroadcastStrides(c.inputs[0].shape(), space), BroadcastStrides(c.inputs[1].shape(), space),
       BroadcastStrides(c.inputs[2].shape(), space), DenseStrides(space)},
      [&](const std::array<int64_t, 4>& at) {
        const int chosen = condition[at[0]] ? 1 : 2;
        std::memmove(to + at[3] * size, c.inputs[chosen].bytes() + at[chosen] * size, size);
      });
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  const Term dy = f.output_grad(0), zero = Scalar(dy, 0);
  const Shape& from = f.output_type(0).shape;
  const Term condition = f.input(0);
  if (f.wants(1)) f.set_grad(1, SumTo(Select(condition, dy, zero), from, f.input_type(1).shape));
  if (f.wants(2)) f.set_grad(2, SumTo(Select(condition, zero, dy), from, f.input_type(2).shape));
  return absl::OkStatus();
}

}  // namespace

OpDef WhereOp() {
  return {.name = "Where",
          .doc = "X where the condition is true, else Y; broadcast",
          .inputs = {{.name = "condition", .dtypes = {DType::kBool}},
                     {.name = "X", .same_as = "T"},
                     {.name = "Y", .same_as = "T"}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.in_place = {{0, 1}, {0, 2}}},
          .fusion = FusionClass::kElementwise,
          .scalar_op = "select",
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = ElementwiseRules};
}

}  // namespace millrace
