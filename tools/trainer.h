// Training as such: steps, evaluations, checkpoints. What `millrace train` asks for comes in as
// data, what it shows goes out as reports.
#ifndef MILLRACE_TOOLS_TRAINER_H_
#define MILLRACE_TOOLS_TRAINER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passes/training.h"
#include "runtime/dataset.h"
#include "runtime/session.h"
#include "tools/binding.h"
#include "tools/checkpoint.h"
#include "tools/compile.h"

namespace millrace {

// A graph made ready to run, and what it runs on.
class PreparedGraph {
 public:
  // `job`: whose ranks share the plan's devices; null: all are this process's.
  static absl::StatusOr<PreparedGraph> Prepare(Graph graph, const PlanningOptions& planning,
                                               Job* job = nullptr,
                                               const std::map<std::string, Tensor>& params = {});
  Session& session() { return *session_; }

 private:
  PreparedGraph(BoundDevices devices, std::unique_ptr<Session> session)
      : devices_(std::move(devices)), session_(std::move(session)) {}

  BoundDevices devices_;  // outlives the session
  std::unique_ptr<Session> session_;
};

struct Evaluation {
  double loss = 0;
  std::optional<double> hits = {};  // the share of samples (or positions of them) classified right
  int64_t samples = 0;
};

// Evaluates params on samples, batch by batch. The last batch is filled up with its first sample
// again, and only what is not filled in counts.
class Evaluator {
 public:
  // UsageError when the graph's outputs are not one number a sample.
  static absl::StatusOr<Evaluator> Prepare(EvaluationGraph graph, const PlanningOptions& planning,
                                           const Dataset& dataset, std::vector<int64_t> samples,
                                           int64_t batch, Job* job);
  absl::StatusOr<Evaluation> Run(const std::map<std::string, Tensor>& params);

 private:
  Evaluator(EvaluationGraph graph, PreparedGraph prepared, const Dataset& dataset,
            std::vector<int64_t> samples, std::vector<Tensor> batch)
      : graph_(std::move(graph)),
        prepared_(std::move(prepared)),
        dataset_(&dataset),
        samples_(std::move(samples)),
        batch_(std::move(batch)) {}

  EvaluationGraph graph_;  // only its names: the graph itself is in the plan
  PreparedGraph prepared_;
  const Dataset* dataset_;
  std::vector<int64_t> samples_;
  std::vector<Tensor> batch_;  // one an array
};

// An epoch that ended.
struct EpochReport {
  int64_t epoch = 0;  // from 1
  int64_t step = 0;   // steps done
  double loss = 0;    // mean over its steps
  double learning_rate = 0;
  double samples_per_s = 0;
  std::optional<Evaluation> evaluation;
};

struct StepReport {
  int64_t step = 0, all_steps = 0;  // done
  int64_t epoch = 0;                // from 1
  double loss = 0;                  // mean of the epoch's steps so far
  double samples_per_s = 0, left_s = 0;
};

struct TrainRun {
  TrainingGraph training;
  PlanningOptions planning;
  const Dataset* dataset = nullptr;
  std::vector<int64_t> samples;  // of it
  int64_t batch = 0, epochs = 0;
  uint64_t seed = 0;
  Job* job = nullptr;                        // null: this process is on its own
  Evaluator* evaluator = nullptr;            // null: no evaluation
  bool checkpoints = false;                  // they are made
  const CheckpointFolder* folder = nullptr;  // null: another rank writes them
  std::optional<Checkpoint> resume;
  std::string fingerprint;
  int64_t save_every = 0;  // steps between checkpoints; 0: after each epoch
  bool check_numerics = false;
  std::function<void(const StepReport&)> on_step;
  std::function<absl::Status(const EpochReport&)> on_epoch;
};

struct TrainResult {
  int64_t step = 0;  // steps done
  bool interrupted = false;
  double wall_s = 0;                     // of this process's steps and evaluations
  std::map<std::string, Tensor> params;  // those that a step changes
  std::optional<EpochReport> last_epoch;
};

// Batches that make `epochs` epochs: the last one may reach into the next epoch.
int64_t StepsOf(int64_t epochs, int64_t samples, int64_t batch);

// CheckFailedError when the loss stops being a number, or a param does; with `check_numerics` it
// names the first node that made one that is none. Writes no checkpoint of such a state.
absl::StatusOr<TrainResult> RunTraining(TrainRun run);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_TRAINER_H_
