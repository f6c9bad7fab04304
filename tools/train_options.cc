#include "tools/train_options.h"

#include "absl/strings/numbers.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "tools/model_file.h"

namespace millrace {
namespace {

constexpr int64_t kDefaultBatch = 32;
constexpr int64_t kMostSteps = int64_t{1} << 40;

// The symbol that dim 0 of the first input is; empty: another expression, a number, or no JSON.
std::string BatchSymbol(const ModelFile& file) {
  if (!file.document.has_value()) return "";
  const JsonDocument& document = *file.document;
  const JsonValue& dim = document.FollowPointer("/inputs/0/type/shape/0");
  const bool found = document.PointerTo(dim) == "/inputs/0/type/shape/0";
  if (!found || dim.kind != JsonKind::kString) return "";
  const std::string name(dim.string());
  const std::string pointer = StrCat("/symbols/", name);
  return document.PointerTo(document.FollowPointer(pointer)) == pointer ? name : "";
}

absl::Status SetMomentum(const TrainOptions& options, OptimizerSpec& optimizer) {
  if (options.momentum == TrainOptions::kNotGiven) return absl::OkStatus();
  if (optimizer.kind != OptimizerKind::kMomentum && optimizer.kind != OptimizerKind::kNesterov) {
    return UsageError(
        StrCat("--momentum needs --optimizer momentum or nesterov, not ", options.optimizer));
  }
  optimizer.momentum = options.momentum;
  return absl::OkStatus();
}

absl::Status SetLossScale(const std::string& text, LossScaleSpec& spec) {
  if (text.empty()) return absl::OkStatus();
  if (text == "dynamic") {
    spec = {kFirstLossScale, kLossScaleGrowEvery};
    return absl::OkStatus();
  }
  if (absl::SimpleAtod(text, &spec.scale) && spec.scale >= 1) return absl::OkStatus();
  return UsageError(StrCat("--loss-scale is 'dynamic' or a number from 1 on, not '", text, "'"));
}

}  // namespace

void DeclareTrainOptions(OptionList& list, TrainOptions& options) {
  list.RequiredText("graph", "FILE", options.planning.file, "Graph to train");
  list.Repeated("--data", "FILE", options.data,
                "Samples; for several files, x=@FILE for each input");
  list.Repeated("--eval", "F", options.eval,
                "Held out: a fraction of the samples, or files as in --data");
  list.Text("--loss", "LOSS", options.loss,
            "softmax-cross-entropy, nll, mse, bce, or output: the graph computes it itself");
  list.Text("--output", "NAME", options.output, "Output that the loss is of [the first]");
  list.Text("--target-input", "NAME", options.target_input,
            "Input that is the target, too (autoencoders) [data of their own]");
  list.Text("--optimizer", "NAME", options.optimizer,
            "sgd, momentum, nesterov, adagrad, rmsprop, adam or adamw [adam]");
  list.Number("--lr", options.lr, "Learning rate [0.001]");
  list.Text("--lr-schedule", "NAME", options.lr_schedule,
            "constant, cosine (down to 0 at the end) or step [constant]");
  list.Count("--lr-warmup", options.lr_warmup, int64_t{0}, kMostSteps,
             "Updates over which the rate rises to --lr [0]");
  list.Count("--lr-step", options.lr_step, int64_t{1}, kMostSteps,
             "Updates after which schedule step multiplies the rate by --lr-factor");
  list.Number("--lr-factor", options.lr_factor, "See --lr-step [0.1]");
  list.Number("--momentum", options.momentum, "Of momentum and nesterov [0.9]");
  list.Number("--weight-decay", options.weight_decay, "Of all that is trained [0]");
  list.Number("--clip-norm", options.clip_norm, "The most norm of all gradients together [any]");
  list.Number("--clip-value", options.clip_value, "The most magnitude of a gradient [any]");
  list.Text("--loss-scale", "N|dynamic", options.loss_scale,
            "Multiply the loss, so that gradients in half precision do not vanish; dynamic finds "
            "out by how much. Steps with gradients that are no numbers update nothing [1]");
  list.Count("--accumulate", options.accumulate, int64_t{1}, kMostSteps,
             "Steps whose gradients make one update [1]");
  list.Count("--epochs", options.epochs, int64_t{1}, int64_t{1'000'000},
             "Rounds over the data [1]");
  list.Count("--batch", options.batch, int64_t{1}, int64_t{1} << 20, "Samples a step [32]");
  list.Count("--seed", options.seed, int64_t{0}, INT64_MAX,
             "Of the samples' order and Dropout [0]");
  list.Text("--save", "FILE", options.save, "Write the trained graph here");
  list.Text("--checkpoint", "FOLDER", options.checkpoint, "Write checkpoints here");
  list.Count("--save-every", options.save_every, int64_t{1}, kMostSteps,
             "Steps from checkpoint to checkpoint [an epoch]");
  list.Flag("--resume", options.resume, "Go on from the newest checkpoint, if there is one");
  list.Text("--metrics", "FILE", options.metrics, "Write a JSON line an epoch here");
  list.Text("--step-graph", "FILE", options.step_graph,
            "Write the graph of a training step here, to look at, plan or profile");
  list.Flag("--check-numerics", options.check_numerics,
            "Name the node that first makes a NaN (slow)");
  AddPlanningOptions(list, options.planning);
  AddWorkerOptions(list, options.workers);
  list.Flag("--json", options.json, "Print the result as JSON");
  list.Footer(
      "A FILE of --data is\n"
      "  x.csv, x.csv.gz      a sample a line: the input's elements, then the target's\n"
      "  x.npz                an array for each input, by name\n"
      "  anything else        text, for models that predict the next character\n"
      "or x=@FILE, for each input by name (the target is 'labels' or 'target'), which is\n"
      "  @x.npy, @x.idx       as they are, also .idx.gz and -ubyte.gz\n"
      "  @x.csv.gz:0-63       columns, from 0\n"
      "Batches run on from one epoch to the next, so that each is full and no sample is left out;\n"
      "the last one of all may reach into one epoch more.");
}

absl::StatusOr<TrainingSpec> ParseTrainingSpec(const TrainOptions& options) {
  if (options.data.empty()) return UsageError("--data is missing: what to train on");
  if (options.loss.empty()) {
    return UsageError("--loss is missing: softmax-cross-entropy, nll, mse, bce or output");
  }
  TrainingSpec spec;
  MILLRACE_ASSIGN_OR_RETURN(spec.loss.kind, ParseLossKind(options.loss));
  MILLRACE_ASSIGN_OR_RETURN(spec.optimizer.kind, ParseOptimizerKind(options.optimizer));
  MILLRACE_ASSIGN_OR_RETURN(spec.rate.kind, ParseRateKind(options.lr_schedule));
  spec.loss.output = options.output;
  spec.loss.target_input = options.target_input;
  spec.optimizer.weight_decay = options.weight_decay;
  spec.optimizer.clip_norm = options.clip_norm;
  spec.optimizer.clip_value = options.clip_value;
  spec.optimizer.accumulate = options.accumulate;
  spec.rate.rate = options.lr;
  spec.rate.warmup = options.lr_warmup;
  spec.rate.every = options.lr_step;
  spec.seed = static_cast<uint64_t>(options.seed);
  MILLRACE_RETURN_IF_ERROR(SetMomentum(options, spec.optimizer));
  MILLRACE_RETURN_IF_ERROR(SetLossScale(options.loss_scale, spec.loss_scale));
  const bool factor_given = options.lr_factor != TrainOptions::kNotGiven;
  if (factor_given) spec.rate.factor = options.lr_factor;
  if ((options.lr_step > 0 || factor_given) && spec.rate.kind != RateKind::kStep) {
    return UsageError(
        StrCat(factor_given ? "--lr-factor" : "--lr-step", " needs --lr-schedule step"));
  }
  if (spec.rate.kind == RateKind::kStep && options.lr_step == 0) {
    return UsageError("--lr-schedule step needs --lr-step");
  }
  return spec;
}

absl::StatusOr<TrainedModel> LoadTrainedModel(const TrainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile(options.planning.file));
  if (file.kind == ModelFileKind::kPlan) {
    return UsageError(StrCat("'", options.planning.file, "' is a plan; give the graph to train"));
  }
  TrainedModel model;
  std::vector<std::string> sets = options.planning.sets;
  MILLRACE_ASSIGN_OR_RETURN(const auto symbols, ParseSymbols(sets));
  const std::string symbol = BatchSymbol(file);
  model.batch = options.batch;
  if (!symbol.empty() && !symbols.contains(symbol)) {
    if (model.batch == 0) model.batch = kDefaultBatch;
    sets.push_back(StrCat(symbol, "=", model.batch));
  }
  MILLRACE_ASSIGN_OR_RETURN(model.graph, LoadInferredGraph(file, sets));
  Diagnostics diagnostics;
  VerifyWeights(model.graph, diagnostics);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  if (model.graph.inputs.empty()) return UsageError("the graph has no inputs, so no samples");
  const Value& first = model.graph.value(model.graph.inputs[0]);
  if (model.batch == 0 && first.type.shape.rank() > 0) model.batch = first.type.shape[0];
  MILLRACE_RETURN_IF_ERROR(CheckBatch(model.graph, model.batch));
  return model;
}

absl::Status CheckBatch(const Graph& graph, int64_t batch) {
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    if (input.type.shape.rank() > 0 && input.type.shape[0] == batch && batch > 0) continue;
    return UsageError(StrCat("dim 0 of each input must be the batch, ", batch, ", but input '",
                             input.name, "' is ", ToString(input.type)));
  }
  return absl::OkStatus();
}

}  // namespace millrace
