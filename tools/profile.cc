#include "tools/profile.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "graph/strings.h"
#include "ops/op_def.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/units.h"

namespace millrace {
namespace {

using NodeKey = std::pair<int32_t, NodeId>;

// The kernel variant that runs each node.
std::map<NodeKey, std::string> VariantsOf(const PlanBundle& plan) {
  std::map<NodeKey, std::string> variants;
  for (const Program& program : plan.programs) {
    for (const Segment& segment : program.segments) {
      for (const Instruction& instruction : segment.instructions) {
        if (const auto* launch = std::get_if<Launch>(&instruction.body)) {
          variants.emplace(NodeKey(launch->graph, launch->node), launch->variant);
        }
      }
    }
  }
  return variants;
}

}  // namespace

std::vector<NodeProfile> ProfileByNode(const Tracer& tracer, const PlanBundle& plan,
                                       int64_t steps) {
  const std::vector<const Graph*> graphs = FlattenGraphs(plan.graph);
  const std::map<NodeKey, std::string> variants = VariantsOf(plan);
  const std::vector<NodeTime> times = TimeByNode(tracer);
  double total_us = 0;
  for (const NodeTime& time : times) total_us += time.total_us;
  std::vector<NodeProfile> profile;
  for (const NodeTime& time : times) {
    const Graph& graph = *graphs[time.graph];
    const Work work = WorkOf(QueryFor(graph, time.node));
    const double seconds_a_run = time.total_us * 1e-6 / static_cast<double>(time.runs);
    NodeProfile p;
    p.node = graph.node(time.node).name;
    p.op = graph.node(time.node).op;
    const auto variant = variants.find(NodeKey(time.graph, time.node));
    if (variant != variants.end()) p.variant = variant->second;
    p.runs = time.runs;
    p.time_us = time.total_us / static_cast<double>(steps);
    if (total_us > 0) p.share = time.total_us / total_us;
    if (seconds_a_run > 0) {
      p.flops_per_s = work.flops / seconds_a_run;
      p.bytes_per_s = work.bytes / seconds_a_run;
    }
    profile.push_back(std::move(p));
  }
  return profile;
}

std::string ToText(const std::vector<NodeProfile>& profile) {
  constexpr size_t kShown = 40;
  Table table({"node", "op", "kernel", ">time", ">share", ">GFLOP/s", ">GB/s"});
  auto giga = [](double rate) { return rate > 0 ? absl::StrFormat("%.2f", rate * 1e-9) : "-"; };
  double total_us = 0, hidden_us = 0;
  for (size_t i = 0; i < profile.size(); ++i) {
    const NodeProfile& p = profile[i];
    total_us += p.time_us;
    if (i >= kShown) {
      hidden_us += p.time_us;
      continue;
    }
    table.Row({p.node, p.op, p.variant, FormatDuration(p.time_us), FormatPercent(p.share),
               giga(p.flops_per_s), giga(p.bytes_per_s)});
  }
  if (profile.size() > kShown) {
    table.Row({StrCat("and ", FormatCount(static_cast<int64_t>(profile.size() - kShown)), " more"),
               "", "", FormatDuration(hidden_us),
               FormatPercent(total_us > 0 ? hidden_us / total_us : 0)});
  }
  table.Row({"all nodes", "", "", FormatDuration(total_us)});
  return table.ToString("  ");
}

Json ToJson(const std::vector<NodeProfile>& profile) {
  Json list = Json::array();
  for (const NodeProfile& p : profile) {
    list.push_back({{"node", p.node},
                    {"op", p.op},
                    {"kernel", p.variant},
                    {"runs", p.runs},
                    {"time_us", p.time_us},
                    {"share", p.share},
                    {"flops_per_s", p.flops_per_s},
                    {"bytes_per_s", p.bytes_per_s}});
  }
  return list;
}

}  // namespace millrace
