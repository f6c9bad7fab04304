// What a training step does once there are gradients, as nodes: the learning rate, clipping, the
// optimizer and its state.
#ifndef MILLRACE_PASSES_TRAINING_STEP_H_
#define MILLRACE_PASSES_TRAINING_STEP_H_

#include <span>

#include "graph/builder.h"
#include "ops/gradient.h"
#include "passes/training.h"

namespace millrace {

// The rate of an update before which `updates` (i64[]) were made: f32[], of the param `base`, which
// holds spec.rate.
Term LearningRateAt(const RateSpec& spec, const Term& base, const Term& updates);

// As OptimizerSpec says; of all gradients of one dtype, or of several.
std::vector<Term> ClipGradients(const OptimizerSpec& spec, const std::vector<Term>& gradients);

// That all are finite: bool[].
Term AllFinite(const std::vector<Term>& gradients);

// The scale that losses are multiplied by: f32[], a param that starts at spec.scale.
Term AddLossScale(GraphBuilder& builder, const LossScaleSpec& spec);
// Appends how it moves in a step that is `due` (a Term without builder: each is), by whether its
// gradients were finite.
void UpdateLossScale(const LossScaleSpec& spec, const Term& scale, const Term& finite,
                     const Term& due);

struct TrainedParam {
  ValueId param;
  Term gradient;
};

// Appends the optimizer, with states that start at zero, and the updates of params and states.
// `updates`: how many there were, i64[]. `due`: bool[], whether this step updates anything; a Term
// without builder where every step does.
void AppendOptimizer(GraphBuilder& builder, const OptimizerSpec& spec,
                     std::span<const TrainedParam> params, const Term& learning_rate,
                     const Term& updates, const Term& due);

// With `steps` > 1: gradients become the mean over so many steps, summed up in params. What flows
// on is right in steps that are `due`; there the sums start anew.
void AppendAccumulation(GraphBuilder& builder, int64_t steps, const Term& due,
                        std::vector<TrainedParam>& params);

}  // namespace millrace

#endif  // MILLRACE_PASSES_TRAINING_STEP_H_
