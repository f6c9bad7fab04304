#include "tools/auto_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/strings.h"
#include "passes/cost_model.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr size_t kRunnersUp = 5;

std::string Seconds(double seconds) { return FormatDuration(1e6 * seconds); }

std::string MeshName(const MeshPlan& plan) {
  return plan.mesh.axes.empty() ? "one device" : ToString(plan.mesh);
}

std::string ScheduleText(const MeshPlan& plan, const MeshRequest& request) {
  std::string text = StrCat(FormatCount(plan.microbatches),
                            plan.microbatches == 1 ? " microbatch" : " microbatches", " of ",
                            FormatPlural(plan.samples, "sample"));
  if (plan.pipeline > 1) StrAppend(&text, ", ", PipelineScheduleName(request.schedule));
  if (plan.interleave > 1) StrAppend(&text, ", ", plan.interleave, " chunks a stage");
  return text;
}

std::string ActivationsText(const MeshPlan& plan, const PartitionRegime& regime) {
  std::string text = !regime.training ? "not kept"
                     : plan.recompute ? "of a cell's input kept, the rest computed again"
                                      : "kept from forward to backward";
  if (plan.tensor > 1) {
    StrAppend(&text, plan.boundary.kind == AxisSharding::Kind::kShard
                         ? StrCat("; between cells cut along dim ", plan.boundary.dim)
                         : std::string("; between cells whole on every device"));
  }
  return text;
}

double FlopsPerDevice(const MeshPlan& plan) {
  return plan.flops / plan.step_seconds /
         static_cast<double>(plan.data * plan.tensor * plan.pipeline);
}

std::vector<std::pair<std::string, double>> Parts(const MeshPlan& plan) {
  const MeshBreakdown& s = plan.seconds;
  return {{"kernels", s.compute - s.recompute},
          {"kernels, again in backward", s.recompute},
          {"tensor axis", s.tensor},
          {"between stages", s.pipeline},
          {"bubble", s.bubble},
          {"gradients, data axis", s.data},
          {"optimizer", s.update}};
}

std::string BreakdownTable(const MeshPlan& plan) {
  Table table({"step", ">time", ">share", ">sent by a device"});
  const std::map<std::string, double> bytes = {{"tensor axis", plan.tensor_bytes},
                                               {"between stages", plan.pipeline_bytes},
                                               {"gradients, data axis", plan.data_bytes}};
  for (const auto& [name, seconds] : Parts(plan)) {
    if (seconds <= 0) continue;
    const auto sent = bytes.find(name);
    table.Row({name, Seconds(seconds), FormatPercent(seconds / plan.step_seconds),
               sent == bytes.end() ? "" : FormatBytes(sent->second)});
  }
  table.Row({"all", Seconds(plan.step_seconds), "", ""});
  return table.ToString();
}

std::string FirstToLast(const std::string& first, const std::string& last) {
  return first == last ? first : StrCat(first, " to ", last);
}

// Neighbours that are alike but for what is under way are one row.
std::string StageTable(const MeshPlan& plan, double limit) {
  Table table({"stage", "cells", ">microbatch", ">parameters a device", ">weights", ">activations",
               ">of memory"});
  for (size_t begin = 0, end; begin < plan.stages.size(); begin = end) {
    const MeshStage& first = plan.stages[begin];
    for (end = begin + 1; end < plan.stages.size(); ++end) {
      const MeshStage& next = plan.stages[end];
      const double difference = std::abs(next.seconds - first.seconds);
      if (next.parameters != first.parameters || difference > 1e-9 * first.seconds) break;
    }
    const MeshStage& last = plan.stages[end - 1];
    table.Row(
        {end == begin + 1 ? StrCat(begin) : StrCat(begin, " to ", end - 1),
         StrCat(first.first_cell, " to ", last.end_cell - 1), Seconds(first.seconds),
         FormatCount(static_cast<int64_t>(first.parameters)), FormatBytes(first.weight_bytes),
         FirstToLast(FormatBytes(first.activation_bytes), FormatBytes(last.activation_bytes)),
         FirstToLast(FormatPercent(first.bytes() / limit), FormatPercent(last.bytes() / limit))});
  }
  return table.ToString();
}

std::string CutTable(const Graph& graph, const MeshSearch& search) {
  Table table({">cells", "node of the first one", "op", "cut along the tensor axis"});
  for (size_t c = 0; c < search.classes.size(); ++c) {
    const int64_t count = std::count_if(
        search.model.cells.begin(), search.model.cells.end(),
        [&](const PartitionCell& cell) { return cell.cell_class == static_cast<int32_t>(c); });
    std::string cells = FormatCount(count);
    for (const NodeCut& cut : search.classes[c].cuts) {
      const Node& node = graph.node(cut.node);
      table.Row(
          {std::exchange(cells, ""), node.name, node.op, cut.note.empty() ? "not cut" : cut.note});
    }
  }
  return table.ToString();
}

// The fastest of every mesh.
std::vector<const MeshPlan*> BestByMesh(const MeshSearch& search) {
  std::vector<const MeshPlan*> best;
  for (const MeshPlan& plan : search.plans) {
    const bool known = std::any_of(best.begin(), best.end(),
                                   [&](const MeshPlan* other) { return other->mesh == plan.mesh; });
    if (!known) best.push_back(&plan);
    if (best.size() > kRunnersUp) break;
  }
  return best;
}

// What of a step is longer than in the best plan, most first.
std::string LosesBy(const MeshPlan& plan, const MeshPlan& best) {
  const auto parts = Parts(plan), of_best = Parts(best);
  size_t most = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto more = [&](size_t p) { return parts[p].second - of_best[p].second; };
    if (more(i) > more(most)) most = i;
  }
  return StrCat(FormatPercent(plan.step_seconds / best.step_seconds - 1), ": ", parts[most].first,
                " ", Seconds(parts[most].second), ", not ", Seconds(of_best[most].second));
}

std::string RunnerUpTable(const MeshSearch& search, const MeshRequest& request, double limit) {
  Table table({"other mesh", ">step", ">of memory", "", "loses by"});
  const std::vector<const MeshPlan*> best = BestByMesh(search);
  for (size_t i = 1; i < best.size(); ++i) {
    table.Row({MeshName(*best[i]), Seconds(best[i]->step_seconds),
               FormatPercent(best[i]->peak_bytes / limit),
               StrCat(ScheduleText(*best[i], request), best[i]->recompute ? ", recomputed" : ""),
               LosesBy(*best[i], *best[0])});
  }
  return table.empty() ? "no other mesh fits\n" : table.ToString();
}

Json PlanToJson(const MeshPlan& plan) {
  Json stages = Json::array();
  for (const MeshStage& stage : plan.stages) {
    stages.push_back({{"cells", {stage.first_cell, stage.end_cell}},
                      {"microbatch_us", 1e6 * stage.seconds},
                      {"parameters", stage.parameters},
                      {"weight_bytes", stage.weight_bytes},
                      {"activation_bytes", stage.activation_bytes}});
  }
  Json parts = Json::object();
  for (const auto& [name, seconds] : Parts(plan)) parts[name] = 1e6 * seconds;
  return {{"mesh", ToString(plan.mesh)},
          {"data", plan.data},
          {"tensor", plan.tensor},
          {"pipeline", plan.pipeline},
          {"samples", plan.samples},
          {"microbatches", plan.microbatches},
          {"interleave", plan.interleave},
          {"recompute", plan.recompute},
          {"boundary_dim", plan.boundary.dim},
          {"step_us", 1e6 * plan.step_seconds},
          {"step_parts_us", std::move(parts)},
          {"flops_per_second_per_device", FlopsPerDevice(plan)},
          {"peak_bytes", plan.peak_bytes},
          {"sent_bytes",
           {{"tensor", plan.tensor_bytes},
            {"data", plan.data_bytes},
            {"pipeline", plan.pipeline_bytes}}},
          {"stages", std::move(stages)}};
}

int64_t NumParameters(const Graph& graph) {
  int64_t parameters = 0;
  for (const ValueId param : graph.params) {
    parameters += NumElements(graph.value(param).type.shape);
  }
  return parameters;
}

}  // namespace

absl::Status ParseAutoMesh(std::string_view text, MeshRequest& request) {
  constexpr std::string_view kAuto = "auto";
  const auto wrong = [&](std::string_view why) {
    return UsageError(StrCat("--mesh ", text, ": ", why,
                             "; expected auto, or auto with fixed axes: "
                             "auto,data=4,tensor=8,pipeline=2"));
  };
  if (!text.starts_with(kAuto)) return wrong("not a mesh to search for");
  text.remove_prefix(kAuto.size());
  if (text.empty()) return absl::OkStatus();
  if (text[0] != ',') return wrong("not a mesh to search for");
  MILLRACE_ASSIGN_OR_RETURN(const Mesh mesh, ParseMesh(text.substr(1)));
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.name == "data") {
      request.data = axis.size;
    } else if (axis.name == "tensor") {
      request.tensor = axis.size;
    } else if (axis.name == "pipeline") {
      request.pipeline = axis.size;
    } else {
      return wrong(StrCat("no axis '", axis.name, "'"));
    }
  }
  return absl::OkStatus();
}

std::string AutoPage(const Graph& graph, const MachineSpec& machine, const PartitionRegime& regime,
                     const MeshRequest& request, const MeshSearch& search) {
  const MeshPlan& best = search.plans[0];
  const DeviceSpec& device = *search.pool.first.spec;
  const int64_t devices = best.data * best.tensor * best.pipeline;
  const double peak = PeakFlops(device, regime.dtype);
  return StrCat(
      graph.name, ", ", FormatSi(static_cast<double>(NumParameters(graph)), "parameters"), ", ",
      regime.training ? "training" : "inference", " in ", DTypeName(regime.dtype), ", ",
      FormatPlural(search.model.batch, "sample"), " a step, on ", FormatCount(devices), " of ",
      FormatCount(search.pool.count), " x ", device.name, " of ", machine.name,
      "\na prediction: nothing of it was measured; kernels at ", FormatPercent(regime.efficiency),
      " of their roofline, nothing overlaps\n\nmesh         ", MeshName(best), "\nstep         ",
      Seconds(best.step_seconds), ", ", FormatSi(FlopsPerDevice(best), "FLOP/s"), " a device (",
      FormatPercent(FlopsPerDevice(best) / peak), " of peak)\nschedule     ",
      ScheduleText(best, request), "\nactivations  ", ActivationsText(best, regime),
      "\nmemory       ", FormatBytes(best.peak_bytes), " of ", FormatBytes(search.memory_limit),
      " on the fullest device\nsearched     ", FormatCount(search.num_considered), " plans, ",
      FormatCount(search.num_without_room), " of them without room; ",
      FormatCount(std::ssize(search.model.cells)), " cells of ",
      FormatPlural(std::ssize(search.model.class_example), "kind"), "\n",
      search.model.whole_batch_because.empty()
          ? std::string()
          : StrCat("one sample   all together: ", search.model.whole_batch_because, "\n"),
      "\n", BreakdownTable(best), "\n", StageTable(best, search.memory_limit), "\n",
      best.tensor > 1 ? StrCat(CutTable(graph, search), "\n") : std::string(),
      RunnerUpTable(search, request, search.memory_limit));
}

Json AutoJson(const Graph& graph, const MachineSpec& machine, const PartitionRegime& regime,
              const MeshRequest& request, const MeshSearch& search) {
  Json document = JsonHeader("millrace-auto-plan");
  document["graph"] = graph.name;
  document["machine"] = machine.name;
  document["device"] = search.pool.first.spec->name;
  document["parameters"] = NumParameters(graph);
  document["training"] = regime.training;
  document["dtype"] = std::string(DTypeName(regime.dtype));
  document["efficiency"] = regime.efficiency;
  document["batch"] = search.model.batch;
  if (!search.model.whole_batch_because.empty()) {
    document["whole_batch_because"] = search.model.whole_batch_because;
  }
  document["schedule"] = std::string(PipelineScheduleName(request.schedule));
  document["memory_limit_bytes"] = search.memory_limit;
  document["considered"] = search.num_considered;
  document["without_room"] = search.num_without_room;
  document["plan"] = PlanToJson(search.plans[0]);
  Json cuts = Json::array();
  for (const CellPlan& cell : search.classes) {
    for (const NodeCut& cut : cell.cuts) {
      cuts.push_back({{"node", graph.node(cut.node).name}, {"rule", cut.note}});
    }
  }
  document["cuts"] = std::move(cuts);
  document["runners_up"] = Json::array();
  const std::vector<const MeshPlan*> best = BestByMesh(search);
  for (size_t i = 1; i < best.size(); ++i) document["runners_up"].push_back(PlanToJson(*best[i]));
  return document;
}

}  // namespace millrace
