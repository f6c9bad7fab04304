#include "ops/optimizer.h"

#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status CheckScalar(const InferContext& c, int i, std::string_view name) {
  if (NumElements(c.input(i).shape) == 1 && c.input(i).shape.rank() <= 1) return absl::OkStatus();
  return BadInputError(
      StrCat("'", name, "' must have one element, but is ", ToString(c.input(i).shape)));
}

}  // namespace

AttrSpec OptimizerNumber(std::string name, double value, std::string doc) {
  return {.name = std::move(name),
          .kind = AttrKind::kFloat,
          .default_value = value,
          .doc = std::move(doc)};
}

OpDef OptimizerOp(std::string name, std::string doc, bool has_step,
                  const std::vector<OptimizerState>& states) {
  OpDef op = {.name = std::move(name),
              .doc = std::move(doc),
              .inputs = {{.name = "param", .dtypes = FloatTypes(), .same_as = "T"},
                         {.name = "grad", .dtypes = FloatTypes(), .doc = "of the param's shape"},
                         {.name = "learning_rate", .dtypes = FloatTypes(), .doc = "one element"}},
              .outputs = {{.name = "new_param", .same_as = "T"}},
              .traits = {.in_place = {{0, 0}}},
              .fusion = FusionClass::kElementwise,
              .infer = nullptr,
              .sharding = ElementwiseRules};
  if (has_step) {
    op.inputs.push_back({.name = "step",
                         .dtypes = {DType::kI64},
                         .doc = "one element, the number of steps before this one"});
  }
  for (const OptimizerState& state : states) {
    op.traits.in_place.push_back(
        {static_cast<int>(op.outputs.size()), static_cast<int>(op.inputs.size())});
    op.inputs.push_back({.name = state.name,
                         .dtypes = FloatTypes(),
                         .optional = state.optional,
                         .same_as = "T",
                         .doc = state.doc});
    op.outputs.push_back(
        {.name = StrCat("new_", state.name), .optional = state.optional, .same_as = "T"});
  }
  return op;
}

absl::Status InferOptimizer(InferContext& c, int first_state) {
  const TensorType& param = c.input(kParam);
  if (c.input(kGrad).shape != param.shape) {
    return BadInputError(StrCat("'grad' must have the shape of 'param', ", ToString(param.shape),
                                ", but has ", ToString(c.input(kGrad).shape)));
  }
  MILLRACE_RETURN_IF_ERROR(CheckScalar(c, kLearningRate, "learning_rate"));
  if (first_state > kStep) MILLRACE_RETURN_IF_ERROR(CheckScalar(c, kStep, "step"));
  c.set_output(0, param);
  for (int i = first_state; i < c.num_inputs(); ++i) {
    if (c.has_input(i) && c.input(i).shape != param.shape) {
      return BadInputError(StrCat("operand ", i, ", a state, must have the shape of 'param', ",
                                  ToString(param.shape), ", but has ", ToString(c.input(i).shape)));
    }
  }
  for (int k = 1; k < c.num_outputs(); ++k) {
    if (c.has_output(k) && !c.has_input(first_state + k - 1)) {
      return BadInputError(StrCat("result ", k, " is a state that is not given"));
    }
    c.set_output(k, param);
  }
  return absl::OkStatus();
}

absl::Status CheckState(const InferContext& c, int i, bool needed, std::string_view name,
                        std::string_view reason) {
  if (c.has_input(i) == needed) return absl::OkStatus();
  return BadInputError(StrCat("'", name, needed ? "' is missing: " : "' makes no sense: ", reason));
}

}  // namespace millrace
