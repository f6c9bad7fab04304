// Training graphs: an inference graph with a loss, its gradients and an optimizer. All that a step
// needs but the data is in the graph: the optimizer's state, the number of steps done and the
// learning rate are params, so a plan of it trains by being run again and again.
#ifndef MILLRACE_PASSES_TRAINING_H_
#define MILLRACE_PASSES_TRAINING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// --- Losses -------------------------------------------------------------------------------------
// Means over all that is compared.
enum class LossKind : uint8_t {
  kSoftmaxCrossEntropy,    // of scores, or of a model that ends in Softmax: -log p[label]
  kNegativeLogLikelihood,  // the same of log p
  kMeanSquaredError,       // (y - target)^2
  kBinaryCrossEntropy,     // -target log p - (1 - target) log(1 - p), of p from 0 to 1
  kOutput,                 // the output itself: a graph that computes its own loss; no target
};
// "softmax-cross-entropy", "nll", "mse", "bce", "output"; UsageError with the nearest for others.
absl::StatusOr<LossKind> ParseLossKind(std::string_view name);
// Its target is a class (i64) for each row of scores, not a tensor like the output.
bool TakesLabels(LossKind kind);

struct LossSpec {
  LossKind kind = LossKind::kSoftmaxCrossEntropy;
  std::string output;  // of the graph; empty: its first
  // An input that is the target too, as an autoencoder's is; empty: a new input, "labels" or
  // "target".
  std::string target_input;
};

// --- Optimizers ---------------------------------------------------------------------------------
enum class OptimizerKind : uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdagrad,
  kRmsProp,
  kAdam,
  kAdamW
};
// "sgd", "momentum", ...; UsageError with the nearest for others.
absl::StatusOr<OptimizerKind> ParseOptimizerKind(std::string_view name);

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdam;
  double momentum = 0.9;    // kMomentum, kNesterov
  double weight_decay = 0;  // of all that is trained; decoupled in AdamW
  double clip_norm = 0;     // the norm of all gradients together is at most that; 0: not clipped
  double clip_value = 0;    // likewise each element's magnitude
  int64_t accumulate = 1;   // steps whose gradients' mean makes one update
};

enum class RateKind : uint8_t { kConstant, kCosine, kStep };
absl::StatusOr<RateKind> ParseRateKind(std::string_view name);  // "constant", "cosine", "step"

// The learning rate of an update, by how many were made before it.
struct RateSpec {
  RateKind kind = RateKind::kConstant;
  double rate = 1e-3;
  int64_t warmup = 0;  // updates over which it rises, the first at rate / warmup
  int64_t total = 0;   // kCosine: from rate after the warm-up down to 0 after `total` updates
  int64_t every = 0;   // kStep: times `factor` after each so many
  double factor = 0.1;
};

// The loss is multiplied before gradients are taken of it, and they are divided again, so that what
// is computed in half precision between does not vanish. Steps with gradients that are no numbers
// leave params and the optimizer's state as they are.
struct LossScaleSpec {
  double scale = 1;  // to begin with; 1: not scaled, and no step is left out
  // Updates in a row without a gradient that is no number, after which the scale doubles; one that
  // is halves it, down to 1. 0: it stays.
  int64_t grow_every = 0;
};
inline constexpr double kFirstLossScale = 65536;  // where it grows and shrinks
inline constexpr double kLargestLossScale = 0x1p100;
inline constexpr int64_t kLossScaleGrowEvery = 2000;

// --- Graphs -------------------------------------------------------------------------------------
struct TrainingSpec {
  LossSpec loss;
  OptimizerSpec optimizer;
  RateSpec rate;
  LossScaleSpec loss_scale;
  uint64_t seed = 0;  // of Dropout
};

// Names of what was added, and what the user should know of how the spec was understood.
struct TrainingGraph {
  Graph graph;
  std::string loss;                  // output, one element
  std::string learning_rate;         // output, one element
  std::string step;                  // param: i64[], steps done
  std::string target;                // input; empty for LossKind::kOutput
  std::vector<std::string> trained;  // params, in the graph's order
  std::vector<std::string> notes;
};

// `graph` is typed and verified; so is the result. Its outputs give way to the loss and the rate.
// Dropout drops and BatchNormalization takes the batch's statistics, and moves the running ones
// where they are params. UsageError for a spec that does not fit the graph; AppendGradients'
// errors.
absl::StatusOr<TrainingGraph> BuildTrainingGraph(Graph graph, const TrainingSpec& spec);

// What a step of evaluation gives for each of the N samples of a batch (dim 0 of the output):
// f32[N] `loss`, and, for losses of classes, f32[N] `hits`: the share that was classified right.
struct EvaluationGraph {
  Graph graph;
  std::string loss, hits;  // outputs; `hits` is empty where there are no classes
  std::string target;      // input; empty for LossKind::kOutput
  int64_t classes = 0;     // that the target is one of, if it is
};
absl::StatusOr<EvaluationGraph> BuildEvaluationGraph(Graph graph, const LossSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_PASSES_TRAINING_H_
