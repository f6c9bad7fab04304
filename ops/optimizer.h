// What optimizers share. An optimizer is an op on one param: from the param, its gradient, the
// learning rate and states of the param's type it gives the new param and states, element by
// element, and each may lie on the old one. Learning rate and step are operands, so that a plan
// that is run again, or a captured graph, sees the current ones.
#ifndef MILLRACE_OPS_OPTIMIZER_H_
#define MILLRACE_OPS_OPTIMIZER_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_def.h"
#include "ops/reference_dispatch.h"

namespace millrace {

enum OptimizerInput { kParam, kGrad, kLearningRate, kStep };  // the step where the op has one

struct OptimizerState {
  std::string name, doc;
  bool optional = false;
};

// The signature: param, grad, learning_rate, maybe step, states; new param, new states.
OpDef OptimizerOp(std::string name, std::string doc, bool has_step,
                  const std::vector<OptimizerState>& states);
AttrSpec OptimizerNumber(std::string name, double value, std::string doc);

// Shapes fit; results have the type of the param. `first_state`: the first operand that is one.
// A state that the node omits has no result either.
absl::Status InferOptimizer(InferContext& c, int first_state);
// BadInputError unless state `i` is there just when it is `needed`, because of `reason`.
absl::Status CheckState(const InferContext& c, int i, bool needed, std::string_view name,
                        std::string_view reason);

// One element: its gradient, the param and the states, which it changes. States that are omitted
// are 0 and forgotten.
struct OptimizerElement {
  double grad = 0, param = 0;
  std::array<double, 3> states{};
};

// update(OptimizerElement&) for each element.
template <typename Update>
absl::Status RunOptimizer(const ReferenceContext& c, int first_state, Update&& update) {
  const Tensor& grad = c.inputs[kGrad];
  return VisitFloats(c.inputs[kParam].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // The operands and results that change: the param, then the states.
    std::array<const T*, 4> from{};
    std::array<T*, 4> to{};
    for (size_t k = 0; k < from.size(); ++k) {
      const size_t i = k == 0 ? 0 : static_cast<size_t>(first_state) + k - 1;
      if (i < c.inputs.size() && c.inputs[i].has_data()) from[k] = c.inputs[i].data<T>().data();
      if (k < c.outputs.size() && c.outputs[k].has_data()) {
        to[k] = c.outputs[k].mutable_data<T>().data();
      }
    }
    for (int64_t i = 0; i < grad.num_elements(); ++i) {
      const auto load = [&](size_t k) {
        return from[k] == nullptr ? 0 : static_cast<double>(from[k][i]);
      };
      OptimizerElement e = {grad.AsDouble(i), load(0), {load(1), load(2), load(3)}};
      update(e);
      const double results[] = {e.param, e.states[0], e.states[1], e.states[2]};
      for (size_t k = 0; k < to.size(); ++k) {
        if (to[k] != nullptr) to[k][i] = Narrow<T>(results[k]);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace millrace

#endif  // MILLRACE_OPS_OPTIMIZER_H_
