// Losses as nodes.
#ifndef MILLRACE_PASSES_TRAINING_LOSS_H_
#define MILLRACE_PASSES_TRAINING_LOSS_H_

#include "graph/builder.h"
#include "passes/training.h"

namespace millrace {

enum class LossResult : uint8_t {
  kMean,       // one element
  kPerSample,  // f32[N], N being dim 0 of the output: the mean over each sample
};

struct AppendedLoss {
  ValueId loss;
  ValueId hits;         // kPerSample, of classes: f32[N]
  ValueId target;       // the input; !valid(): the loss compares nothing
  int64_t classes = 0;  // that the target is one of; 0: it is a tensor like the output
  std::vector<std::string> notes;
};

// The graph is typed before and after. UsageError when it has no such output, or the output is
// nothing that the loss can be of.
absl::StatusOr<AppendedLoss> AppendLoss(GraphBuilder& builder, const LossSpec& spec,
                                        LossResult result);

}  // namespace millrace

#endif  // MILLRACE_PASSES_TRAINING_LOSS_H_
