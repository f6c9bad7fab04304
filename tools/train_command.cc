// `millrace train`: trains a graph on data files. The graph gets a loss and an optimizer, is
// compiled and checked like any other, and its plan runs once a step.

#include <cstdio>

#include "graph/builder.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/metrics_file.h"
#include "tools/model_file.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/train_data.h"
#include "tools/train_options.h"
#include "tools/trainer.h"
#include "tools/units.h"
#include "tools/workers.h"

namespace millrace {
namespace {

// Where the samples are, and which are for what.
struct TrainData {
  Dataset dataset;
  std::vector<int64_t> train, held_out;  // of it
  Dataset other;                         // --eval FILE, all of it
};

absl::StatusOr<TrainData> ReadTrainData(const TrainOptions& options, const DataInputs& inputs) {
  TrainData data;
  MILLRACE_ASSIGN_OR_RETURN(data.dataset, ReadDataset("--data", options.data, inputs));
  double fraction = 0;
  if (options.eval.size() == 1) fraction = ParseFraction(options.eval[0]).value_or(0);
  SplitSamples split = Split(data.dataset.count, fraction);
  data.train = std::move(split.train);
  data.held_out = std::move(split.held_out);
  if (fraction > 0 && data.held_out.empty()) {
    return UsageError(StrCat("--eval ", options.eval[0], " of ",
                             FormatPlural(data.dataset.count, "sample"), " is none"));
  }
  if (data.train.empty()) {
    return UsageError(StrCat("--eval ", options.eval[0], " of ",
                             FormatPlural(data.dataset.count, "sample"),
                             " is all: none is left to train on"));
  }
  if (fraction > 0 || options.eval.empty()) return data;
  MILLRACE_ASSIGN_OR_RETURN(data.other, ReadDataset("--eval", options.eval, inputs));
  return data;
}

// What two runs must have in common for one to go on where the other stopped.
std::string FingerprintOf(const TrainingGraph& training, const TrainOptions& options,
                          const TrainData& data, int64_t batch) {
  std::string text = StrCat(ToText(training.graph), "\n", batch, " ", options.seed, " ",
                            data.dataset.count, " ", data.train.size());
  for (const SampleArray& array : data.dataset.arrays) {
    StrAppend(&text, " ",
              Sha256Hex({reinterpret_cast<const char*>(array.data.bytes()),
                         static_cast<size_t>(array.data.size_bytes())}));
  }
  return Sha256Hex(text);
}

// What rank 0 found, for all ranks: their machines may lack the folder.
absl::StatusOr<std::optional<Checkpoint>> ShareResumed(std::optional<Checkpoint> found, Job* job) {
  if (job == nullptr) return found;
  std::string bytes;
  if (found.has_value()) bytes = EncodeCheckpoint(*found);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all, job->Gather(std::move(bytes)));
  if (job->rank() == 0 || all[0].empty()) return found;
  MILLRACE_ASSIGN_OR_RETURN(Checkpoint checkpoint, DecodeCheckpoint(all[0]));
  return checkpoint;
}

absl::StatusOr<std::optional<Checkpoint>> LoadResumed(const TrainOptions& options,
                                                      const CheckpointFolder& folder,
                                                      const std::string& fingerprint) {
  std::vector<std::string> spoiled;
  MILLRACE_ASSIGN_OR_RETURN(std::optional<Checkpoint> newest, folder.LoadNewest(spoiled));
  for (const std::string& why : spoiled) std::fprintf(stderr, "passed over: %s\n", why.c_str());
  if (!newest.has_value() && !spoiled.empty()) {
    return BadInputError(StrCat("'", folder.path(), "' has no whole checkpoint"));
  }
  if (!newest.has_value()) return newest;
  if (!options.resume) {
    return UsageError(StrCat("'", folder.path(), "' has a checkpoint of step ", newest->step,
                             "; pass --resume to go on from there, or another folder"));
  }
  if (newest->fingerprint != fingerprint) {
    return UsageError(StrCat("the checkpoint in '", folder.path(), "' is of another run: graph, ",
                             "data, batch, seed and optimizer must be the same, and with a cosine ",
                             "the epochs"));
  }
  std::fprintf(stderr, "going on after step %s\n", FormatCount(newest->step).c_str());
  return newest;
}

std::string DescribeEvaluation(const Evaluation& evaluation) {
  return StrCat(
      "loss ", evaluation.loss,
      evaluation.hits.has_value() ? StrCat(", accuracy ", FormatPercent(*evaluation.hits)) : "");
}

std::string DescribeEpoch(const EpochReport& report, int64_t epochs) {
  std::string line = StrCat("epoch ", report.epoch, "/", epochs, ": loss ", report.loss);
  if (report.evaluation.has_value()) {
    StrAppend(&line, "; held out: ", DescribeEvaluation(*report.evaluation));
  }
  return StrCat(line, "; ", FormatSi(report.samples_per_s, "samples/s"));
}

// The progress bar, lines for epochs, and metrics.
class TrainDisplay {
 public:
  TrainDisplay(int64_t epochs, MetricsFile* metrics)
      : epochs_(epochs), metrics_(metrics), progress_("training") {}

  void ShowStep(const StepReport& report) {
    progress_.Update(report.step, report.all_steps,
                     StrCat(" steps, epoch ", report.epoch, "/", epochs_, ", loss ", report.loss,
                            ", ", FormatSi(report.samples_per_s, "samples/s"), ", ",
                            FormatDuration(report.left_s * 1e6), " left"));
  }
  absl::Status ShowEpoch(const EpochReport& report) {
    progress_.Wipe();
    std::fprintf(stderr, "%s\n", DescribeEpoch(report, epochs_).c_str());
    return metrics_ == nullptr ? absl::OkStatus() : metrics_->Add(report);
  }

 private:
  const int64_t epochs_;
  MetricsFile* const metrics_;
  ProgressLine progress_;
};

// The model with what it learned, as the graph file it came from.
absl::Status SaveTrained(Graph model, const std::map<std::string, Tensor>& params,
                         const std::string& path) {
  for (const ValueId id : model.params) {
    const auto found = params.find(model.value(id).name);
    if (found != params.end()) model.data[model.value(id).data] = InlineData(found->second);
  }
  return SaveGraph(model, path);
}

void PrintResult(const TrainOptions& options, const std::string& name, const TrainResult& result,
                 int64_t all_steps) {
  const EpochReport* last = result.last_epoch.has_value() ? &*result.last_epoch : nullptr;
  if (options.json) {
    Json document = JsonHeader("millrace-train");
    document["graph"] = name;
    document["steps"] = result.step;
    document["interrupted"] = result.interrupted;
    document["wall_s"] = result.wall_s;
    if (last != nullptr) document["last_epoch"] = ToJson(*last);
    document["saved"] = options.save;
    PrintJson(document);
    return;
  }
  std::string text = StrCat(name, ": ", FormatCount(result.step), " of ", FormatCount(all_steps),
                            " steps in ", FormatDuration(result.wall_s * 1e6));
  if (last != nullptr) StrAppend(&text, "; loss ", last->loss);
  if (last != nullptr && last->evaluation.has_value()) {
    StrAppend(&text, "; held out (", FormatPlural(last->evaluation->samples, "sample"),
              "): ", DescribeEvaluation(*last->evaluation));
  }
  Print(StrCat(text, "\n", options.save.empty() ? "" : StrCat("wrote ", options.save, "\n")));
}

absl::Status CheckOutputs(const TrainOptions& options) {
  if (options.checkpoint.empty() && (options.resume || options.save_every > 0)) {
    return UsageError(
        StrCat(options.resume ? "--resume" : "--save-every", " needs --checkpoint, the folder"));
  }
  for (const auto& [option, path] :
       {std::pair("--save", options.save), std::pair("--metrics", options.metrics),
        std::pair("--step-graph", options.step_graph)}) {
    if (!path.empty()) MILLRACE_RETURN_IF_ERROR(Annotate(CheckCanWrite(path), option));
  }
  return absl::OkStatus();
}

// What a run holds on to while it runs.
struct TrainParts {
  TrainData data;
  std::optional<CheckpointFolder> folder;
  std::optional<MetricsFile> metrics;
  std::optional<Evaluator> evaluator;
};

absl::Status OpenFiles(const TrainOptions& options, TrainParts& parts, TrainRun& run) {
  run.checkpoints = !options.checkpoint.empty();
  if (run.checkpoints && !IsSilent(run.job)) {
    MILLRACE_ASSIGN_OR_RETURN(CheckpointFolder opened, CheckpointFolder::Open(options.checkpoint));
    parts.folder.emplace(std::move(opened));
    run.folder = &*parts.folder;
    MILLRACE_ASSIGN_OR_RETURN(run.resume, LoadResumed(options, *parts.folder, run.fingerprint));
  }
  MILLRACE_ASSIGN_OR_RETURN(run.resume, ShareResumed(std::move(run.resume), run.job));
  if (!options.metrics.empty() && !IsSilent(run.job)) {
    const int64_t step = run.resume.has_value() ? run.resume->step : 0;
    MILLRACE_ASSIGN_OR_RETURN(MetricsFile opened, MetricsFile::Open(options.metrics, step));
    parts.metrics.emplace(std::move(opened));
  }
  return absl::OkStatus();
}

absl::Status PrepareEvaluator(const TrainOptions& options, EvaluationGraph graph, int64_t batch,
                              TrainParts& parts, TrainRun& run) {
  if (options.eval.empty()) return absl::OkStatus();
  const TrainData& data = parts.data;
  const bool other = data.other.count > 0;
  MILLRACE_ASSIGN_OR_RETURN(
      Evaluator prepared,
      Evaluator::Prepare(std::move(graph), options.planning, other ? data.other : data.dataset,
                         other ? AllSamples(data.other) : data.held_out, batch, run.job));
  parts.evaluator.emplace(std::move(prepared));
  run.evaluator = &*parts.evaluator;
  return absl::OkStatus();
}

// Gradients of steps after the last update move nothing.
absl::Status CheckAccumulation(int64_t accumulate, int64_t all_steps) {
  if (accumulate > all_steps) {
    return UsageError(StrCat("--accumulate ", accumulate, ": there are only ",
                             FormatPlural(all_steps, "step"), ", so nothing would be trained"));
  }
  if (const int64_t left = all_steps % accumulate; left > 0) {
    std::fprintf(stderr, "%s\n",
                 StrCat("note: the last ", FormatPlural(left, "step"), " of ", all_steps,
                        " make no update: that takes ", accumulate, " each")
                     .c_str());
  }
  return absl::OkStatus();
}

absl::Status BuildStep(const TrainOptions& options, const TrainedModel& model, TrainingSpec spec,
                       int64_t all_steps, TrainRun& run) {
  MILLRACE_RETURN_IF_ERROR(CheckAccumulation(spec.optimizer.accumulate, all_steps));
  spec.rate.total = all_steps / spec.optimizer.accumulate;
  MILLRACE_ASSIGN_OR_RETURN(run.training, BuildTrainingGraph(model.graph, spec));
  for (const std::string& note : run.training.notes) {
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
  if (options.step_graph.empty() || IsSilent(run.job)) return absl::OkStatus();
  Graph step = run.training.graph;
  FixAllSymbols(step);  // gradients are of this batch
  return SaveGraph(step, options.step_graph);
}

absl::Status TrainAs(const TrainOptions& options, Job* job) {
  MILLRACE_RETURN_IF_ERROR(CheckOutputs(options));
  MILLRACE_ASSIGN_OR_RETURN(const TrainingSpec spec, ParseTrainingSpec(options));
  MILLRACE_ASSIGN_OR_RETURN(const TrainedModel model, LoadTrainedModel(options));

  // The data, for the inputs that the loss leaves the graph with.
  MILLRACE_ASSIGN_OR_RETURN(EvaluationGraph evaluation,
                            BuildEvaluationGraph(model.graph, spec.loss));
  MILLRACE_RETURN_IF_ERROR(CheckBatch(evaluation.graph, model.batch));
  TrainParts parts;
  MILLRACE_ASSIGN_OR_RETURN(
      parts.data,
      ReadTrainData(options, {&evaluation.graph, evaluation.target, evaluation.classes}));
  const int64_t all_steps = StepsOf(options.epochs, std::ssize(parts.data.train), model.batch);

  TrainRun run;
  run.job = job;
  MILLRACE_RETURN_IF_ERROR(BuildStep(options, model, spec, all_steps, run));
  run.planning = options.planning;
  run.dataset = &parts.data.dataset;
  run.samples = parts.data.train;
  run.batch = model.batch;
  run.epochs = options.epochs;
  run.seed = static_cast<uint64_t>(options.seed);
  run.save_every = options.save_every;
  run.check_numerics = options.check_numerics;
  run.fingerprint = FingerprintOf(run.training, options, parts.data, model.batch);
  MILLRACE_RETURN_IF_ERROR(OpenFiles(options, parts, run));
  MILLRACE_RETURN_IF_ERROR(
      PrepareEvaluator(options, std::move(evaluation), model.batch, parts, run));

  const InterruptDeferral deferral;
  TrainResult result;
  {
    TrainDisplay display(options.epochs, parts.metrics.has_value() ? &*parts.metrics : nullptr);
    run.on_step = [&](const StepReport& report) { display.ShowStep(report); };
    run.on_epoch = [&](const EpochReport& report) { return display.ShowEpoch(report); };
    MILLRACE_ASSIGN_OR_RETURN(result, RunTraining(std::move(run)));
  }
  if (!options.save.empty() && !IsSilent(job)) {
    MILLRACE_RETURN_IF_ERROR(SaveTrained(model.graph, result.params, options.save));
  }
  PrintResult(options, model.graph.name, result, all_steps);
  return absl::OkStatus();
}

absl::Status Train(const TrainOptions& options) {
  return RunAsWorker(options.workers, [&](Job* job) { return TrainAs(options, job); });
}

}  // namespace

void AddTrainCommand(CommandLine& line) {
  AddCommand<TrainOptions>(line, "train", "Train a graph on data files", Train,
                           DeclareTrainOptions);
}

}  // namespace millrace
