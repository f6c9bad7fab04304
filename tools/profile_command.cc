// `millrace profile`: measures this machine, and the kernels of given models on it, and writes what
// planners and the simulator need to know of both.
#include "graph/check/check.h"
#include "graph/files.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "passes/cost_model.h"
#include "passes/fit_rates.h"
#include "tools/command.h"
#include "tools/compile.h"
#include "tools/interrupt.h"
#include "tools/measure_kernels.h"
#include "tools/measure_machine.h"
#include "tools/output.h"
#include "tools/prediction.h"
#include "tools/progress.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

struct ProfileOptions {
  std::vector<std::string> files;
  std::vector<std::string> sets;
  std::string output = "machine.json";
  std::string costs;  // empty: beside `output`
  bool add = false;
  int threads = 0;
  double seconds = 30;
  std::string folder;
};

// All distinct kernels of the models, as they would be planned for this machine.
absl::StatusOr<std::vector<KernelSample>> CollectKernels(const ProfileOptions& options) {
  std::vector<KernelSample> all;
  for (const std::string& file : options.files) {
    PlanningOptions planning;
    planning.file = file;
    planning.sets = options.sets;
    planning.threads = options.threads;
    MILLRACE_ASSIGN_OR_RETURN(const ModelFile model, OpenModelFile(file));
    MILLRACE_ASSIGN_OR_RETURN(const PlanForMachine planned, LoadOrCompile(planning, model));
    const CheckReport check = CheckPlan(planned.plan, AllOpTraits(), /*machine=*/nullptr);
    if (!check.ok()) return CheckFailedError(FormatReport(check));
    for (KernelSample& sample : KernelsOf(planned.plan)) all.push_back(std::move(sample));
  }
  return all;
}

// What the file at `path` holds already, or an empty table.
absl::StatusOr<CostTable> StartTable(const ProfileOptions& options, const std::string& path) {
  if (!options.add) return CostTable();
  return LoadCostTable(path);
}

std::string RatesText(const std::vector<KernelRates>& all) {
  Table table({"kernels", "class", ">threads", ">measured", ">of peak", ">of bandwidth",
               ">overhead", ">error"});
  for (const KernelRates& r : all) {
    if (r.threads == 0) continue;  // sums of those with threads
    table.Row({r.family, r.op_class, StrCat(r.threads), FormatCount(r.samples),
               FormatPercent(r.compute), FormatPercent(r.memory), FormatDuration(r.overhead_us),
               FormatPercent(r.median_error)});
  }
  return table.empty() ? "" : "\n" + table.ToString("  ");
}

absl::Status Profile(const ProfileOptions& options) {
  const std::string costs_path =
      options.costs.empty() ? CostsPathFor(options.output) : options.costs;
  MILLRACE_ASSIGN_OR_RETURN(CostTable table, StartTable(options, costs_path));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<KernelSample> samples, CollectKernels(options));
  MILLRACE_ASSIGN_OR_RETURN(const MachineSpec machine,
                            MeasureMachine({.threads = options.threads, .folder = options.folder}));
  const DeviceSpec& device = machine.devices[0];
  DeviceCosts& costs = table.devices[device.name];
  // What is known from before is kept.
  std::erase_if(samples, [&](const KernelSample& s) { return costs.kernels.contains(s.key); });
  {
    ProgressLine progress("measuring kernels");
    MILLRACE_RETURN_IF_ERROR(
        MeasureKernels(samples,
                       {.seconds = options.seconds,
                        .progress = [&](int64_t done, int64_t all) { progress.Update(done, all); }},
                       costs));
  }
  costs.rates = FitRates(costs, device);
  table.machine = machine.name;
  const InterruptDeferral deferral;
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomically(options.output, MachineToJson(machine)));
  MILLRACE_RETURN_IF_ERROR(WriteFileAtomically(costs_path, CostTableToJson(table)));
  Print(StrCat(ToText(machine), "\n", FormatPlural(std::ssize(samples), "kernel"), " measured, ",
               FormatCount(std::ssize(costs.kernels)), " known\n", RatesText(costs.rates),
               "\nwrote ", options.output, " and ", costs_path, "\n"));
  return absl::OkStatus();
}

void DeclareOptions(OptionList& list, ProfileOptions& options) {
  list.Several("files", "FILE", options.files, "Graphs or plans whose kernels to measure");
  list.Repeated("--set", "N=8", options.sets, "Bind a symbol of the graphs");
  list.Text("-o,--output", "FILE", options.output, "Write the machine here [machine.json]");
  list.Text("--costs", "FILE", options.costs,
            "Write the kernels' costs here [beside the machine: machine.costs.json]");
  list.Flag("--add", options.add, "Keep what the costs file holds, measure what it lacks");
  list.Count("--threads", options.threads, 1, 1024, "Threads of the device [all cores]");
  list.Number("--seconds", options.seconds, "Time for the kernels, if it is enough for all [30]");
  list.Text("--offload", "FOLDER", options.folder, "Folder to measure for offloading");
}

}  // namespace

void AddProfileCommand(CommandLine& line) {
  AddCommand<ProfileOptions>(line, "profile", "Measure this machine and the kernels of models",
                             Profile, DeclareOptions);
}

}  // namespace millrace
