#include "tools/sim_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "graph/plan_json.h"
#include "graph/strings.h"
#include "passes/cost_model.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

constexpr size_t kShownCopies = 8, kShownResources = 6, kShownNodes = 8;

std::string LimitName(const SimPathPiece& piece) {
  if (piece.launching) return "launching";
  return piece.limit.has_value() ? std::string(ResourceName(*piece.limit)) : "fixed costs";
}

// The critical path by node, or by kind of instruction where none runs.
struct PathShare {
  std::string name, op;
  double time_us = 0;
};

std::vector<PathShare> PathByNode(const SimResult& result, const PlanBundle& plan) {
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  std::map<std::pair<std::string, std::string>, double> times;
  for (const SimPathPiece& piece : result.critical_path) {
    std::pair<std::string, std::string> name(InstructionKindName(piece.instruction->body), "");
    if (const auto id = NodeOf(*piece.instruction)) {
      const Node& node = graphs[id->first]->node(id->second);
      name = {node.name, node.op};
    }
    times[name] += piece.end_us - piece.begin_us;
  }
  std::vector<PathShare> shares;
  for (const auto& [name, time_us] : times) shares.push_back({name.first, name.second, time_us});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const PathShare& a, const PathShare& b) { return a.time_us > b.time_us; });
  return shares;
}

double Fraction(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Idle time over busy time, as pipelines count their bubbles.
double Bubble(const SimCopies& copies, const SimResult& result) {
  return Fraction(result.time_us - copies.kernel_us, copies.kernel_us);
}

std::string And(size_t shown, size_t all, std::string_view what) {
  return all > shown ? StrCat("  ... and ", FormatCount(static_cast<int64_t>(all - shown)),
                              " more ", what, "\n")
                     : "";
}

std::string FitText(const MemoryFit& fit) {
  return StrCat(
      fit.fits() ? "fits: " : "does not fit: ", FormatBytes(static_cast<double>(fit.needed_bytes)),
      " of ", FormatBytes(static_cast<double>(fit.memory_bytes)), " on ", fit.device);
}

std::string HeadText(const SimReport& report) {
  const Prediction& p = report.prediction;
  std::string text =
      StrCat("simulated ", report.plan, report.plan.empty() ? "" : " ", "on machine '",
             report.machine, "': ", FormatDuration(p.step_us), " a step\n");
  if (!report.note.empty()) StrAppend(&text, report.note, "\n");
  text.push_back('\n');
  Table facts({"", ""});
  facts.Row({"costs", SourcesText(p.kernels_by_source)});
  if (p.init_us > 0)
    facts.Row({"before", StrCat(FormatDuration(p.init_us), " in the init section")});
  if (p.inputs_us > 0) {
    facts.Row({"inputs", StrCat(FormatDuration(p.inputs_us), " of the step, to write them")});
  }
  const std::vector<LimitShare> limits = LimitsOf(p.step);
  facts.Row({"limited by", absl::StrJoin(limits, ", ", [&](std::string* out, const LimitShare& l) {
               StrAppend(out, l.limit, " ", FormatPercent(Fraction(l.time_us, p.step.time_us)));
             })});
  facts.Row({"memory", FitText(report.outcomes[0].memory)});
  return StrCat(text, facts.ToString("  "));
}

std::string CopiesText(const SimResult& result) {
  Table table({"device", ">alike", ">kernels", ">idle/busy"});
  for (size_t i = 0; i < std::min(result.copies.size(), kShownCopies); ++i) {
    const SimCopies& copies = result.copies[i];
    table.Row({copies.device, FormatCount(copies.count),
               FormatPercent(Fraction(copies.kernel_us, result.time_us)),
               FormatPercent(Bubble(copies, result))});
  }
  return StrCat("\n", table.ToString("  "), And(kShownCopies, result.copies.size(), "kinds"));
}

std::string ResourcesText(const SimResult& result) {
  if (result.resources.empty()) return "";
  Table table({"resource", "of", ">alike", ">busy"});
  for (size_t i = 0; i < std::min(result.resources.size(), kShownResources); ++i) {
    const SimResource& r = result.resources[i];
    table.Row({std::string(ResourceName(r.resource)), r.owner, FormatCount(r.count),
               FormatPercent(r.busy)});
  }
  return StrCat("\n", table.ToString("  "),
                And(kShownResources, result.resources.size(), "resources"));
}

std::string PathText(const SimResult& result, const PlanBundle& plan) {
  const std::vector<PathShare> shares = PathByNode(result, plan);
  if (shares.empty()) return "";
  Table table({"critical path", "op", ">time", ">share"});
  for (size_t i = 0; i < std::min(shares.size(), kShownNodes); ++i) {
    table.Row({shares[i].name, shares[i].op, FormatDuration(shares[i].time_us),
               FormatPercent(Fraction(shares[i].time_us, result.time_us))});
  }
  return StrCat("\n", table.ToString("  "), And(kShownNodes, shares.size(), "nodes"));
}

std::string OutcomesText(const std::vector<SimOutcome>& outcomes) {
  if (outcomes.size() < 2) return "";
  Table table({"what if", ">step", ">speed-up", "limited by", "memory"});
  for (const SimOutcome& o : outcomes) {
    table.Row({o.what.empty() ? "(as it is)" : o.what, FormatDuration(o.step_us),
               absl::StrFormat("%.2fx", Fraction(outcomes[0].step_us, o.step_us)), o.bottleneck,
               FitText(o.memory)});
  }
  return StrCat("\n", table.ToString("  "));
}

Json ToJson(const MemoryFit& fit) {
  return {{"device", fit.device},
          {"needed_bytes", fit.needed_bytes},
          {"memory_bytes", fit.memory_bytes},
          {"fits", fit.fits()}};
}

Json CopiesToJson(const SimResult& result, const PlanBundle& plan) {
  Json list = Json::array();
  for (const SimCopies& copies : result.copies) {
    list.push_back({{"program", plan.programs[copies.first.program].name},
                    {"coordinates", copies.first.coordinates},
                    {"device", copies.device},
                    {"count", copies.count},
                    {"kernel_us", copies.kernel_us},
                    {"idle_over_busy", Bubble(copies, result)}});
  }
  return list;
}

}  // namespace

std::vector<LimitShare> LimitsOf(const SimResult& result) {
  std::map<std::string, double> times;
  for (const SimPathPiece& piece : result.critical_path) {
    times[LimitName(piece)] += piece.end_us - piece.begin_us;
  }
  std::vector<LimitShare> shares;
  for (const auto& [limit, time_us] : times) shares.push_back({limit, time_us});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const LimitShare& a, const LimitShare& b) { return a.time_us > b.time_us; });
  return shares;
}

std::string ToText(const SimReport& report, const PlanBundle& plan) {
  const SimResult& step = report.prediction.step;
  return StrCat(HeadText(report), CopiesText(step), ResourcesText(step), PathText(step, plan),
                OutcomesText(report.outcomes));
}

Json ToJson(const SimReport& report, const PlanBundle& plan) {
  const Prediction& p = report.prediction;
  Json document = JsonHeader("millrace-simulation");
  document["plan"] = report.plan;
  document["machine"] = report.machine;
  if (!report.note.empty()) document["note"] = report.note;
  document["step_us"] = p.step_us;
  document["inputs_us"] = p.inputs_us;
  document["init_us"] = p.init_us;
  for (const CostSource source :
       {CostSource::kMeasured, CostSource::kFitted, CostSource::kRoofline}) {
    document["kernels"][CostSourceName(source)] = p.kernels_by_source[static_cast<int>(source)];
  }
  document["limits"] = Json::array();
  for (const LimitShare& limit : LimitsOf(p.step)) {
    document["limits"].push_back({{"limit", limit.limit}, {"time_us", limit.time_us}});
  }
  document["memory"] = ToJson(report.outcomes[0].memory);
  document["copies"] = CopiesToJson(p.step, plan);
  document["resources"] = Json::array();
  for (const SimResource& r : p.step.resources) {
    document["resources"].push_back({{"resource", std::string(ResourceName(r.resource))},
                                     {"of", r.owner},
                                     {"count", r.count},
                                     {"busy", r.busy}});
  }
  document["critical_path"] = Json::array();
  for (const PathShare& share : PathByNode(p.step, plan)) {
    document["critical_path"].push_back(
        {{"node", share.name}, {"op", share.op}, {"time_us", share.time_us}});
  }
  document["what_if"] = Json::array();
  for (size_t i = 1; i < report.outcomes.size(); ++i) {
    const SimOutcome& o = report.outcomes[i];
    document["what_if"].push_back({{"what", o.what},
                                   {"step_us", o.step_us},
                                   {"limit", o.bottleneck},
                                   {"memory", ToJson(o.memory)}});
  }
  return document;
}

}  // namespace millrace
