#include <cstring>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/broadcast.h"
#include "ops/gradient.h"
#include "ops/index_walk.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, ConstantInts(c, 1, "shape", kMaxRank));
  for (int64_t d : dims) {
    if (d < 0) return BadInputError(StrCat("the shape has a dim of ", d));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(c.input(0).shape, Shape(dims)));
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

absl::Status Reference(const ReferenceContext& c) {
  const Shape& space = c.outputs[0].shape();
  const int64_t size = SizeOf(c.inputs[0].dtype());
  std::byte* to = c.outputs[0].mutable_bytes();
  WalkIndices<2>(space, {BroadcastStrides(c.inputs[0].shape(), space), DenseStrides(space)},
                 [&](const std::array<int64_t, 2>& at) {
                   std::memcpy(to + at[1] * size, c.inputs[0].bytes() + at[0] * size, size);
                 });
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& c) {
  Forward f(c);
  if (f.wants(0)) {
    f.set_grad(0, SumTo(f.output_grad(0), f.output_type(0).shape, f.input_type(0).shape));
  }
  return absl::OkStatus();
}

std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules = ElementwiseRules(query);
  for (ShardingRule& rule : rules) rule.inputs[1] = Replicate();  // `shape` is not data
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

}  // namespace

OpDef ExpandOp() {
  return {.name = "Expand",
          .doc = "The input, broadcast with a shape",
          .inputs = {{.name = "input", .same_as = "T"}, {.name = "shape", .dtypes = {DType::kI64}}},
          .outputs = {{.name = "output", .same_as = "T"}},
          .traits = {.host_inputs = {1}},
          .fusion = FusionClass::kShape,
          .infer = Infer,
          .reference = Reference,
          .gradient = Gradient,
          .sharding = Rules};
}

}  // namespace millrace
