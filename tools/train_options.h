// The options of `millrace train`, and what they say.
#ifndef MILLRACE_TOOLS_TRAIN_OPTIONS_H_
#define MILLRACE_TOOLS_TRAIN_OPTIONS_H_

#include <string>
#include <vector>

#include "passes/training.h"
#include "tools/command_line.h"
#include "tools/compile.h"
#include "tools/workers.h"

namespace millrace {

struct TrainOptions {
  static constexpr double kNotGiven = -1;  // what can be given is 0 or more
  PlanningOptions planning;
  std::vector<std::string> data, eval;
  std::string loss, output, target_input;
  std::string optimizer = "adam", lr_schedule = "constant", loss_scale;
  double lr = 1e-3, lr_factor = kNotGiven, momentum = kNotGiven, weight_decay = 0;
  double clip_norm = 0, clip_value = 0;
  int64_t lr_warmup = 0, lr_step = 0, accumulate = 1;
  int64_t epochs = 1, batch = 0, seed = 0;  // batch 0: not given
  std::string save, checkpoint, metrics, step_graph;
  int64_t save_every = 0;
  WorkerOptions workers;
  bool resume = false, check_numerics = false, json = false;
};

void DeclareTrainOptions(OptionList& list, TrainOptions& options);

// RateSpec::total is left to the caller. UsageError with the nearest names there are.
absl::StatusOr<TrainingSpec> ParseTrainingSpec(const TrainOptions& options);

// The graph to train, its batch size bound.
struct TrainedModel {
  Graph graph;
  int64_t batch = 0;
};
// The symbol that dim 0 of the first input is, if it is one, becomes --batch, or 32. UsageError for
// a file that is a plan.
absl::StatusOr<TrainedModel> LoadTrainedModel(const TrainOptions& options);

// UsageError unless dim 0 of every input is `batch`.
absl::Status CheckBatch(const Graph& graph, int64_t batch);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_TRAIN_OPTIONS_H_
