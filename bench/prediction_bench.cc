// Predictions beside measurements: profiles this machine and the kernels of sample models, then
// predicts each model's step and runs it. Prints one table.
//
//   prediction_bench [--threads N] [--seconds S] [MODEL.json...]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/models/small.h"
#include "bench/models/tower.h"
#include "graph/check/check.h"
#include "graph/strings.h"
#include "ops/cpu/cpu_target.h"
#include "ops/op_def.h"
#include "passes/fit_rates.h"
#include "passes/pipeline.h"
#include "runtime/session.h"
#include "tools/binding.h"
#include "tools/measure_kernels.h"
#include "tools/measure_machine.h"
#include "tools/model_file.h"
#include "tools/prediction.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct Model {
  std::string name;
  PlanBundle plan;
};

struct Options {
  int threads = 1;
  double seconds = 20;
  std::vector<std::string> files;
};

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::StatusOr<Model> Planned(std::string name, Graph graph, const MachineSpec& machine,
                              int threads) {
  CompileOptions options;
  options.threads = threads;
  MILLRACE_ASSIGN_OR_RETURN(CompileResult compiled,
                            Compile(std::move(graph), machine, CpuTarget(), options));
  return Model{std::move(name), std::move(compiled.plan)};
}

absl::StatusOr<std::vector<Model>> PlanModels(const Options& options, const MachineSpec& machine) {
  std::vector<std::pair<std::string, Graph>> graphs;
  for (const std::string& file : options.files) {
    MILLRACE_ASSIGN_OR_RETURN(Graph graph, LoadInferredGraph(file, {}));
    graphs.emplace_back(graph.name, std::move(graph));
  }
  graphs.emplace_back("mlp, batch 32", SmallMlpGraph(32));
  graphs.emplace_back("cnn, batch 1", SmallCnnGraph(1));
  graphs.emplace_back("cnn, batch 8", SmallCnnGraph(8));
  graphs.emplace_back("transformer, 64 tokens", SmallTransformerGraph(4, 64, 256, 4));
  graphs.emplace_back("transformer, 128 tokens", SmallTransformerGraph(2, 128, 512, 8));
  graphs.emplace_back("tower, 1,000 nodes of 8", TowerGraph(1000));
  graphs.emplace_back("tower, 100 nodes of 65,536", TowerGraph(100, 65536));
  std::vector<Model> models;
  for (auto& [name, graph] : graphs) {
    MILLRACE_ASSIGN_OR_RETURN(Model model,
                              Planned(name, std::move(graph), machine, options.threads));
    models.push_back(std::move(model));
  }
  return models;
}

// The median step of a few, and the least.
struct Measured {
  double median_us = 0, least_us = 0;
};

absl::StatusOr<Measured> Run(const PlanBundle& plan, const MachineSpec& machine, int steps) {
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan checked, CheckedPlan::Check(plan, AllOpTraits(), &machine));
  MILLRACE_ASSIGN_OR_RETURN(const BoundDevices devices,
                            BoundDevices::Bind(plan, machine, /*offload_directory=*/""));
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(std::move(checked), devices.table()));
  for (const ValueId id : plan.graph.inputs) {
    const Value& value = plan.graph.value(id);
    MILLRACE_RETURN_IF_ERROR(session->SetInput(value.name, Tensor::Zeros(value.type)));
  }
  std::vector<double> times;
  for (int i = -steps / 10; i < steps; ++i) {
    const double start = NowUs();
    MILLRACE_RETURN_IF_ERROR(session->Run());
    if (i >= 0) times.push_back(NowUs() - start);
  }
  std::sort(times.begin(), times.end());
  return Measured{times[times.size() / 2], times[0]};
}

absl::Status Main(const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine,
                            MeasureMachine({.threads = options.threads}));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Model> models, PlanModels(options, machine));
  CostTable table;
  const DeviceSpec& device = machine.devices[0];
  DeviceCosts& costs = table.devices[device.name];
  std::vector<KernelSample> samples;
  for (const Model& model : models) {
    for (KernelSample& sample : KernelsOf(model.plan)) samples.push_back(std::move(sample));
  }
  MILLRACE_RETURN_IF_ERROR(MeasureKernels(samples, {.seconds = options.seconds}, costs));
  costs.rates = FitRates(costs, device);

  // What the rates alone say of kernels: as if none of them had been measured.
  CostTable rates_alone = table;
  rates_alone.devices[device.name].kernels.clear();

  Table out({"model", ">nodes", ">measured", ">least", ">predicted", ">error", ">by rates",
             ">error", ">by roofline"});
  std::vector<double> errors;
  for (const Model& model : models) {
    MILLRACE_ASSIGN_OR_RETURN(const Prediction predicted,
                              Predict(model.plan, machine, {.costs = &table}));
    MILLRACE_ASSIGN_OR_RETURN(const Prediction by_rates,
                              Predict(model.plan, machine, {.costs = &rates_alone}));
    MILLRACE_ASSIGN_OR_RETURN(const Prediction by_roofline, Predict(model.plan, machine));
    const int steps =
        static_cast<int>(std::clamp(1e6 / std::max(predicted.step_us, 1.0), 20.0, 2000.0));
    MILLRACE_ASSIGN_OR_RETURN(const Measured measured, Run(model.plan, machine, steps));
    const auto error = [&](double step_us) { return std::abs(step_us / measured.median_us - 1); };
    errors.push_back(error(predicted.step_us));
    out.Row({model.name, FormatCount(std::ssize(model.plan.graph.nodes)),
             FormatDuration(measured.median_us), FormatDuration(measured.least_us),
             FormatDuration(predicted.step_us), FormatPercent(error(predicted.step_us)),
             FormatDuration(by_rates.step_us), FormatPercent(error(by_rates.step_us)),
             FormatDuration(by_roofline.step_us)});
  }
  std::sort(errors.begin(), errors.end());
  std::printf("%s\n%s\nmedian error %s over %zu models\n", ToText(machine).c_str(),
              out.ToString().c_str(), FormatPercent(errors[errors.size() / 2]).c_str(),
              errors.size());
  return absl::OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--threads" && i + 1 < argc) {
      options.threads = std::atoi(argv[++i]);
    } else if (argument == "--seconds" && i + 1 < argc) {
      options.seconds = std::atof(argv[++i]);
    } else {
      options.files.push_back(argument);
    }
  }
  const absl::Status status = millrace::Main(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return millrace::ExitCode(status);
}
