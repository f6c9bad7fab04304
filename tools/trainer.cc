#include "tools/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "tools/first_non_number.h"
#include "tools/interrupt.h"

namespace millrace {
namespace {

constexpr double kBetweenReportsS = 0.1;

double NowS() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Names of the params that a plan loads.
std::set<std::string> LoadedParams(const PlanBundle& plan) {
  std::set<std::string> names;
  for (const Program& program : plan.programs) {
    for (const Binding& binding : program.loads) {
      const Value& value = plan.graph.value(binding.value);
      if (value.kind == ValueKind::kParam) names.insert(value.name);
    }
  }
  return names;
}

// The params that a step changes, as they are now.
absl::StatusOr<std::map<std::string, Tensor>> ReadState(Session& session) {
  std::map<std::string, Tensor> params;
  const Graph& graph = session.plan().graph;
  for (const Update& update : graph.updates) {
    const std::string& name = graph.value(update.param).name;
    MILLRACE_ASSIGN_OR_RETURN(params[name], session.Param(name));
  }
  return params;
}

// CheckFailedError naming the first float param that is not all numbers.
absl::Status CheckFinite(const std::map<std::string, Tensor>& params, int64_t step) {
  for (const auto& [name, tensor] : params) {
    if (!IsFloat(tensor.dtype())) continue;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double value = tensor.AsDouble(i);
      if (std::isfinite(value)) continue;
      return CheckFailedError(StrCat("param '", name, "' has a ", value, " after step ", step,
                                     "; a smaller learning rate or --clip-norm may help, and ",
                                     "--check-numerics names the node where it begins"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ReadScalar(Session& session, const std::string& name) {
  MILLRACE_ASSIGN_OR_RETURN(const Tensor tensor, session.Output(name));
  return tensor.AsDouble(0);
}

// The steps of one run, and where it stands.
class TrainingLoop {
 public:
  TrainingLoop(const TrainRun& run, Session& session)
      : run_(run),
        session_(session),
        all_steps_(StepsOf(run.epochs, std::ssize(run.samples), run.batch)) {
    if (!run.resume.has_value()) return;
    step_ = saved_at_ = run.resume->step;
    loss_sum_ = run.resume->loss_sum;
    loss_steps_ = run.resume->loss_steps;
  }

  absl::StatusOr<TrainResult> Run() {
    const double start_s = NowS();
    MILLRACE_ASSIGN_OR_RETURN(
        const std::unique_ptr<BatchReader> reader,
        BatchReader::Start(*run_.dataset, run_.samples, run_.batch, run_.seed, step_));
    while (epoch_ < run_.epochs && EpochEnd(epoch_) <= step_) ++epoch_;
    StartClock();
    while (step_ < all_steps_ && !result_.interrupted) {
      MILLRACE_RETURN_IF_ERROR(Step(reader->Next()));
      if (step_ == EpochEnd(epoch_)) MILLRACE_RETURN_IF_ERROR(FinishEpoch());
      if (run_.save_every > 0 && step_ % run_.save_every == 0) MILLRACE_RETURN_IF_ERROR(Save());
      MILLRACE_ASSIGN_OR_RETURN(result_.interrupted, IsInterrupted());
    }
    MILLRACE_RETURN_IF_ERROR(Save());
    result_.step = step_;
    result_.wall_s = NowS() - start_s;
    MILLRACE_ASSIGN_OR_RETURN(result_.params, ReadFiniteState());
    return std::move(result_);
  }

 private:
  // Ranks stop after the same step.
  absl::StatusOr<bool> IsInterrupted() {
    const bool here = InterruptedExitCode() != 0;
    if (run_.job == nullptr) return here;
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                              run_.job->Gather(here ? "interrupted" : ""));
    return std::ranges::any_of(all, [](const std::string& said) { return !said.empty(); });
  }

  // Steps done when `epoch` (from 1) is over.
  int64_t EpochEnd(int64_t epoch) const {
    return StepsOf(epoch, std::ssize(run_.samples), run_.batch);
  }

  void StartClock() {
    clock_start_s_ = NowS();
    clock_start_step_ = step_;
  }
  double SamplesPerS() const {
    const double elapsed_s = std::max(1e-9, NowS() - clock_start_s_);
    return static_cast<double>((step_ - clock_start_step_) * run_.batch) / elapsed_s;
  }

  absl::Status Step(std::span<const Tensor> batch) {
    for (size_t i = 0; i < batch.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(session_.SetInput(run_.dataset->arrays[i].name, batch[i]));
    }
    std::map<std::string, Tensor> before;
    if (run_.check_numerics) {
      MILLRACE_ASSIGN_OR_RETURN(before, ReadState(session_));
    }
    MILLRACE_RETURN_IF_ERROR(session_.Run());
    ++step_;
    MILLRACE_ASSIGN_OR_RETURN(const double loss, ReadScalar(session_, run_.training.loss));
    if (!std::isfinite(loss)) return Diverged(loss, before, batch);
    if (run_.check_numerics) MILLRACE_RETURN_IF_ERROR(CheckState(before, batch));
    loss_sum_ += loss;
    ++loss_steps_;
    Report();
    return absl::OkStatus();
  }

  void Report() {
    if (!run_.on_step || NowS() - reported_s_ < kBetweenReportsS) return;
    reported_s_ = NowS();
    const double rate = SamplesPerS();
    run_.on_step({.step = step_,
                  .all_steps = all_steps_,
                  .epoch = epoch_,
                  .loss = loss_sum_ / static_cast<double>(loss_steps_),
                  .samples_per_s = rate,
                  .left_s = static_cast<double>((all_steps_ - step_) * run_.batch) / rate});
  }

  absl::Status FinishEpoch() {
    EpochReport report;
    report.epoch = epoch_;
    report.step = step_;
    report.loss = loss_sum_ / static_cast<double>(loss_steps_);
    report.samples_per_s = SamplesPerS();
    MILLRACE_ASSIGN_OR_RETURN(report.learning_rate,
                              ReadScalar(session_, run_.training.learning_rate));
    if (run_.evaluator != nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(const auto params, ReadFiniteState());
      MILLRACE_ASSIGN_OR_RETURN(report.evaluation, run_.evaluator->Run(params));
    }
    loss_sum_ = 0;
    loss_steps_ = 0;
    ++epoch_;
    if (run_.on_epoch) MILLRACE_RETURN_IF_ERROR(run_.on_epoch(report));
    result_.last_epoch = report;
    if (run_.save_every == 0) MILLRACE_RETURN_IF_ERROR(Save());
    StartClock();
    return absl::OkStatus();
  }

  // A step may spoil params while its own loss is still a number.
  absl::StatusOr<std::map<std::string, Tensor>> ReadFiniteState() {
    MILLRACE_ASSIGN_OR_RETURN(auto params, ReadState(session_));
    MILLRACE_RETURN_IF_ERROR(CheckFinite(params, step_));
    return params;
  }

  absl::Status Save() {
    if (!run_.checkpoints || step_ == saved_at_) return absl::OkStatus();
    Checkpoint checkpoint{.step = step_,
                          .fingerprint = run_.fingerprint,
                          .loss_sum = loss_sum_,
                          .loss_steps = loss_steps_};
    MILLRACE_ASSIGN_OR_RETURN(checkpoint.params, ReadFiniteState());
    if (run_.folder != nullptr) MILLRACE_RETURN_IF_ERROR(run_.folder->Save(checkpoint));
    saved_at_ = step_;
    return absl::OkStatus();
  }

  absl::Status CheckState(const std::map<std::string, Tensor>& before,
                          std::span<const Tensor> batch) {
    MILLRACE_ASSIGN_OR_RETURN(const auto after, ReadState(session_));
    for (const auto& [name, tensor] : after) {
      if (!IsFloat(tensor.dtype())) continue;
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        if (!std::isfinite(tensor.AsDouble(i))) return Diverged(tensor.AsDouble(i), before, batch);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Diverged(double found, const std::map<std::string, Tensor>& before,
                        std::span<const Tensor> batch) {
    if (!run_.check_numerics) {
      return CheckFailedError(StrCat("the loss is ", found, " in step ", step_,
                                     "; a smaller learning rate or --clip-norm may help, and ",
                                     "--check-numerics names the node where it begins"));
    }
    std::map<std::string, Tensor> inputs;
    for (size_t i = 0; i < batch.size(); ++i) inputs[run_.dataset->arrays[i].name] = batch[i];
    MILLRACE_ASSIGN_OR_RETURN(const std::string where,
                              FirstNonNumber(run_.training.graph, inputs, before));
    return CheckFailedError(StrCat("step ", step_, ": ", where));
  }

  const TrainRun& run_;
  Session& session_;
  const int64_t all_steps_;
  int64_t step_ = 0;       // done
  int64_t saved_at_ = -1;  // step of the newest checkpoint
  int64_t epoch_ = 1;      // under way
  double loss_sum_ = 0;    // of its steps
  int64_t loss_steps_ = 0;
  double clock_start_s_ = 0, reported_s_ = 0;
  int64_t clock_start_step_ = 0;
  TrainResult result_;
};

}  // namespace

absl::StatusOr<PreparedGraph> PreparedGraph::Prepare(Graph graph, const PlanningOptions& planning,
                                                     Job* job,
                                                     const std::map<std::string, Tensor>& params) {
  MILLRACE_ASSIGN_OR_RETURN(PlanForMachine planned, CompileGraph(std::move(graph), planning));
  MILLRACE_ASSIGN_OR_RETURN(
      CheckedPlan checked,
      CheckedPlan::Check(std::move(planned.plan), AllOpTraits(), &planned.machine));
  MILLRACE_ASSIGN_OR_RETURN(BoundDevices devices,
                            BoundDevices::Bind(checked.plan(), planned.machine, "", job));
  SessionOptions options;
  options.communicator = devices.communicator();
  options.params = params;
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                            Session::Create(std::move(checked), devices.table(), options));
  return PreparedGraph(std::move(devices), std::move(session));
}

absl::StatusOr<Evaluator> Evaluator::Prepare(EvaluationGraph graph, const PlanningOptions& planning,
                                             const Dataset& dataset, std::vector<int64_t> samples,
                                             int64_t batch, Job* job) {
  for (const ValueId id : graph.graph.outputs) {
    const Value& output = graph.graph.value(id);
    if (output.type == TensorType{DType::kF32, {batch}}) continue;
    return UsageError(StrCat("--eval needs a model output whose dim 0 is the batch, ", batch,
                             ", but '", output.name, "' of its samples is ",
                             ToString(output.type)));
  }
  std::vector<Tensor> tensors;
  for (const SampleArray& array : dataset.arrays) {
    TensorType type{array.sample.dtype, {batch}};
    for (const int64_t dim : array.sample.shape.dims()) type.shape.push_back(dim);
    MILLRACE_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
    tensors.push_back(std::move(tensor));
  }
  MILLRACE_ASSIGN_OR_RETURN(PreparedGraph prepared,
                            PreparedGraph::Prepare(std::move(graph.graph), planning, job));
  return Evaluator(std::move(graph), std::move(prepared), dataset, std::move(samples),
                   std::move(tensors));
}

absl::StatusOr<Evaluation> Evaluator::Run(const std::map<std::string, Tensor>& params) {
  Session& session = prepared_.session();
  const std::set<std::string> loaded = LoadedParams(session.plan());
  std::map<std::string, Tensor> used;
  for (const auto& [name, tensor] : params) {
    if (loaded.contains(name)) used[name] = tensor;
  }
  MILLRACE_RETURN_IF_ERROR(session.Reload(used));

  const int64_t batch = batch_[0].shape()[0];
  Evaluation evaluation{.samples = std::ssize(samples_)};
  double loss_sum = 0, hits_sum = 0;
  std::vector<int64_t> which(static_cast<size_t>(batch));
  for (int64_t begin = 0; begin < std::ssize(samples_); begin += batch) {
    const int64_t count = std::min(batch, std::ssize(samples_) - begin);
    for (int64_t i = 0; i < batch; ++i) {
      which[static_cast<size_t>(i)] = samples_[static_cast<size_t>(begin + (i < count ? i : 0))];
    }
    for (size_t a = 0; a < batch_.size(); ++a) {
      CopySamples(dataset_->arrays[a], which, batch_[a]);
      MILLRACE_RETURN_IF_ERROR(session.SetInput(dataset_->arrays[a].name, batch_[a]));
    }
    MILLRACE_RETURN_IF_ERROR(session.Run());
    MILLRACE_ASSIGN_OR_RETURN(const Tensor loss, session.Output(graph_.loss));
    for (int64_t i = 0; i < count; ++i) loss_sum += loss.AsDouble(i);
    if (graph_.hits.empty()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Tensor hits, session.Output(graph_.hits));
    for (int64_t i = 0; i < count; ++i) hits_sum += hits.AsDouble(i);
  }
  const auto samples = static_cast<double>(evaluation.samples);
  evaluation.loss = loss_sum / samples;
  if (!graph_.hits.empty()) evaluation.hits = hits_sum / samples;
  return evaluation;
}

int64_t StepsOf(int64_t epochs, int64_t samples, int64_t batch) {
  return (epochs * samples + batch - 1) / batch;
}

absl::StatusOr<TrainResult> RunTraining(TrainRun run) {
  const std::map<std::string, Tensor> params =
      run.resume.has_value() ? run.resume->params : std::map<std::string, Tensor>();
  MILLRACE_ASSIGN_OR_RETURN(
      PreparedGraph prepared,
      PreparedGraph::Prepare(run.training.graph, run.planning, run.job, params));
  return TrainingLoop(run, prepared.session()).Run();
}

}  // namespace millrace
