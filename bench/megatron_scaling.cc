// Predicted against published: step times of the weak scaling of Megatron-LM (Narayanan et al.
// 2021, table 1: GPT models of 1.7 to 1,008 billion parameters on 32 to 3,072 A100s), on the mesh
// that they used and on the one that our search finds, both by the model of
// passes/parallel/auto_mesh.h. `megatron_scaling tools/machines/dgx-a100-pod.json`
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "bench/models/model.h"
#include "graph/machine.h"
#include "graph/strings.h"
#include "passes/parallel/auto_mesh.h"

namespace millrace {
namespace {

struct PublishedRun {
  const char* size;
  int64_t layers, width, tensor, pipeline, devices, batch;
  double teraflops;  // reached by each device
};
constexpr PublishedRun kPublishedRuns[] = {
    {"1.7b", 24, 2304, 1, 1, 32, 512, 137},       {"3.6b", 30, 3072, 2, 1, 64, 512, 138},
    {"7.5b", 36, 4096, 4, 1, 128, 512, 142},      {"18b", 40, 6144, 8, 1, 256, 1024, 135},
    {"39b", 48, 8192, 8, 2, 512, 1536, 138},      {"76b", 60, 10240, 8, 4, 1024, 1792, 140},
    {"145b", 80, 12288, 8, 8, 1536, 2304, 148},   {"310b", 96, 16384, 8, 16, 1920, 2160, 155},
    {"530b", 105, 20480, 8, 35, 2520, 2520, 163}, {"1t", 128, 25600, 8, 64, 3072, 3072, 163}};
constexpr int64_t kTokens = 2048, kVocabulary = 51200;

// Their equation 3, which counts recomputation.
double PublishedSeconds(const PublishedRun& run) {
  const double b = static_cast<double>(run.batch), l = static_cast<double>(run.layers);
  const double h = static_cast<double>(run.width), s = kTokens, v = kVocabulary;
  const double flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return flops / (static_cast<double>(run.devices) * run.teraflops * 1e12);
}

absl::StatusOr<Graph> BuildGpt(const PublishedRun& run) {
  MILLRACE_ASSIGN_OR_RETURN(const Model* model, FindModel("gpt"));
  MILLRACE_ASSIGN_OR_RETURN(
      const ModelSettings settings,
      ParseModelSettings(
          *model, std::vector<std::string>{StrCat("parameters=", run.size),
                                           StrCat("batch=", run.batch), StrCat("tokens=", kTokens),
                                           StrCat("vocabulary=", kVocabulary)}));
  return model->build(settings);
}

std::string MeshText(const MeshPlan& plan) {
  return StrCat(plan.tensor, " x ", plan.pipeline, " x ", plan.data, ", ", plan.samples,
                plan.interleave > 1 ? StrCat(" /", plan.interleave) : "",
                plan.recompute ? " r" : "");
}

absl::Status Compare(const MachineSpec& machine, const PartitionRegime& regime,
                     const PublishedRun& run, double& worst) {
  MILLRACE_ASSIGN_OR_RETURN(const Graph graph, BuildGpt(run));
  // Their interleaved schedule, microbatch and chunks as best in the model: the table has neither.
  const MeshRequest theirs = {.data = run.devices / run.tensor / run.pipeline,
                              .tensor = run.tensor,
                              .pipeline = run.pipeline,
                              .devices = run.devices,
                              .max_interleave = 4,
                              .recompute = 1,
                              .whole_boundary = true};
  MILLRACE_ASSIGN_OR_RETURN(const MeshSearch fixed, SearchMeshes(graph, machine, regime, theirs));
  const auto start = std::chrono::steady_clock::now();
  MILLRACE_ASSIGN_OR_RETURN(
      const MeshSearch free,
      SearchMeshes(graph, machine, regime, {.devices = run.devices, .max_interleave = 4}));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double published = PublishedSeconds(run), predicted = fixed.plans[0].step_seconds;
  worst = std::max(worst, std::abs(predicted / published - 1));
  std::printf("%-5s %5lld %6.2f s %6.2f s %+6.1f %%  %-22s %6.2f s %5.3f  %-24s %5.2f s\n",
              run.size, static_cast<long long>(run.devices), published, predicted,
              100 * (predicted / published - 1), MeshText(fixed.plans[0]).c_str(),
              free.plans[0].step_seconds, predicted / free.plans[0].step_seconds,
              MeshText(free.plans[0]).c_str(), seconds.count());
  if (free.plans[0].step_seconds > predicted) {
    return CheckFailedError(StrCat(run.size, ": the plan found is slower than the published one"));
  }
  return absl::OkStatus();
}

absl::Status RunComparison(const std::string& machine_file, const PartitionRegime& regime) {
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine, LoadMachine(machine_file));
  std::printf("%-5s %5s %8s %8s %8s  %-22s %8s %5s  %-24s %7s\n", "model", "GPUs", "published",
              "predicted", "error", "t x p x d, b", "ours", "gain", "t x p x d, b", "search");
  double worst = 0;
  for (const PublishedRun& run : kPublishedRuns) {
    MILLRACE_RETURN_IF_ERROR(Compare(machine, regime, run, worst));
  }
  std::printf("largest error %.1f %%\n", 100 * worst);
  if (worst > 0.15) return CheckFailedError("a prediction is more than 15 % off");
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  std::string machine;
  millrace::PartitionRegime regime = {.dtype = millrace::DType::kBF16};
  CLI::App app("Predicts the step times of Megatron-LM's weak scaling");
  app.add_option("machine", machine, "tools/machines/dgx-a100-pod.json")->required();
  app.add_option("--efficiency", regime.efficiency, "Of kernels, to their roofline");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = millrace::RunComparison(machine, regime);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return millrace::ExitCode(status);
}
