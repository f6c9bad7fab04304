#include "tools/prediction.h"

#include <filesystem>
#include <map>

#include "absl/strings/str_join.h"
#include "graph/link_cost.h"
#include "graph/mesh_coordinates.h"
#include "graph/strings.h"
#include "passes/cost_model.h"
#include "tools/units.h"

namespace millrace {
namespace {

// The session writes each input of each copy of each program, one after another.
absl::StatusOr<double> InputsUs(const PlanBundle& plan, const MachineSpec& machine) {
  double total_us = 0;
  for (const Program& program : plan.programs) {
    if (program.inputs.empty()) continue;
    // A cost for each device: copies differ in nothing else.
    std::map<int64_t, double> by_device;
    for (int64_t i = 0; i < plan.mesh.num_devices(); ++i) {
      const std::vector<int64_t> coordinates = CoordinatesOf(plan.mesh, i);
      const int64_t index = Evaluate(program.device_index, {.coordinates = coordinates});
      const auto [cost, is_new] = by_device.try_emplace(index, 0);
      if (is_new) {
        MILLRACE_ASSIGN_OR_RETURN(const DeviceLocation device,
                                  FindDevice(machine, program.device_kind, index));
        for (const Binding& input : program.inputs) {
          const Slice& slice = program.slices[input.slice.index];
          const double bytes = static_cast<double>(ByteSize(plan.graph.value(input.value).type));
          cost->second +=
              plan.microbatches * CopyCost(machine, device, MemorySpace::kHost,
                                           program.buffers[slice.buffer.index].space, bytes)
                                      .time_us;
        }
      }
      total_us += cost->second;
    }
  }
  return total_us;
}

}  // namespace

std::string CostsPathFor(const std::string& machine_path) {
  std::filesystem::path path(machine_path);
  return path.replace_extension(StrCat(".costs", path.extension().string())).string();
}

absl::StatusOr<std::optional<CostTable>> LoadCosts(const PlanningOptions& options) {
  std::string file = options.costs;
  if (file.empty() && !options.machine.empty()) {
    std::error_code error;
    const std::string beside = CostsPathFor(options.machine);
    if (std::filesystem::is_regular_file(beside, error)) file = beside;
  }
  if (file.empty()) return std::nullopt;
  MILLRACE_ASSIGN_OR_RETURN(CostTable table, LoadCostTable(file));
  return std::optional<CostTable>(std::move(table));
}

absl::StatusOr<Prediction> Predict(const PlanBundle& plan, const MachineSpec& machine,
                                   const PriceOptions& options, bool every_copy) {
  Prediction prediction;
  MILLRACE_ASSIGN_OR_RETURN(const PlanPrices prices, PricePlan(plan, machine, options));
  prediction.kernels_by_source = prices.kernels_by_source;
  MILLRACE_ASSIGN_OR_RETURN(prediction.step,
                            Simulate(plan, machine, prices.costs, {.every_copy = every_copy}));
  MILLRACE_ASSIGN_OR_RETURN(const SimResult init,
                            Simulate(plan, machine, prices.costs, {.section = Section::kInit}));
  MILLRACE_ASSIGN_OR_RETURN(prediction.inputs_us, InputsUs(plan, machine));
  prediction.init_us = init.time_us;
  prediction.step_us = prediction.inputs_us + prediction.step.time_us;
  return prediction;
}

std::string SourcesText(const std::array<int64_t, 3>& kernels_by_source) {
  std::vector<std::string> parts;
  for (const CostSource source :
       {CostSource::kMeasured, CostSource::kFitted, CostSource::kRoofline}) {
    const int64_t count = kernels_by_source[static_cast<int>(source)];
    if (count == 0) continue;
    parts.push_back(StrCat(FormatPlural(count, "kernel"), " ",
                           source == CostSource::kMeasured ? "measured"
                           : source == CostSource::kFitted ? "by measured rates"
                                                           : "by roofline"));
  }
  return parts.empty() ? "no kernels" : absl::StrJoin(parts, ", ");
}

PredictedStep PredictStep(const PlanBundle& plan, const MachineSpec& machine,
                          const std::optional<CostTable>& costs, bool machine_given) {
  const absl::StatusOr<Prediction> prediction =
      Predict(plan, machine, {.costs = costs.has_value() ? &*costs : nullptr});
  if (!prediction.ok()) return {0, std::string(prediction.status().message())};
  std::string basis;
  if (costs.has_value()) {
    basis = SourcesText(prediction->kernels_by_source);
  } else if (machine_given) {
    basis = StrCat("by roofline of machine '", machine.name, "'");
  } else {
    basis = "by roofline of this machine, at guessed rates: millrace profile measures them";
  }
  return {prediction->step_us, std::move(basis)};
}

absl::StatusOr<MemoryFit> FitOf(const PlanBundle& plan, const MachineSpec& machine) {
  std::map<std::pair<std::string, int64_t>, int64_t> needed;  // by device
  for (const Program& program : plan.programs) {
    for (int64_t i = 0; i < plan.mesh.num_devices(); ++i) {
      const std::vector<int64_t> coordinates = CoordinatesOf(plan.mesh, i);
      const int64_t index = Evaluate(program.device_index, {.coordinates = coordinates});
      needed[{program.device_kind, index}] += DeviceBytes(program);
    }
  }
  MemoryFit fullest;
  for (const auto& [name, bytes] : needed) {
    MILLRACE_ASSIGN_OR_RETURN(const DeviceLocation device,
                              FindDevice(machine, name.first, name.second));
    const int64_t memory = device.spec->memory_bytes;
    const bool fuller = static_cast<double>(bytes) * static_cast<double>(fullest.memory_bytes) >
                        static_cast<double>(fullest.needed_bytes) * static_cast<double>(memory);
    if (!fullest.device.empty() && !fuller) continue;
    fullest = {StrCat(name.first, ":", name.second), bytes, memory};
  }
  return fullest;
}

}  // namespace millrace
