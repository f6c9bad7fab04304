#include "runtime/trace.h"

#include <algorithm>
#include <map>

namespace millrace {

std::optional<std::pair<int32_t, NodeId>> NodeOf(const Instruction& instruction) {
  return std::visit(
      [](const auto& body) -> std::optional<std::pair<int32_t, NodeId>> {
        if constexpr (requires { body.graph; }) {
          return std::pair(body.graph, body.node);
        } else if constexpr (requires { body.node; }) {
          return std::pair(0, body.node);
        } else {
          return std::nullopt;
        }
      },
      instruction.body);
}

TraceLane& Tracer::AddLane(std::string device, std::string stream, int32_t program,
                           std::vector<int64_t> coordinates) {
  lanes_.push_back(std::make_unique<TraceLane>());
  TraceLane& lane = *lanes_.back();
  lane.device = std::move(device);
  lane.stream = std::move(stream);
  lane.program = program;
  lane.coordinates = std::move(coordinates);
  return lane;
}

void Tracer::Clear() {
  for (const auto& lane : lanes_) lane->spans.clear();
}

std::vector<NodeTime> TimeByNode(const Tracer& tracer) {
  std::map<std::pair<int32_t, NodeId>, NodeTime> times;
  for (const auto& lane : tracer.lanes()) {
    for (const TraceSpan& span : lane->spans) {
      const auto node = NodeOf(*span.instruction);
      if (!node) continue;
      NodeTime& time = times[*node];
      time.graph = node->first;
      time.node = node->second;
      ++time.runs;
      time.total_us += static_cast<double>(span.end_ns - span.begin_ns) / 1e3;
    }
  }
  std::vector<NodeTime> sorted;
  sorted.reserve(times.size());
  for (const auto& [node, time] : times) sorted.push_back(time);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const NodeTime& a, const NodeTime& b) { return a.total_us > b.total_us; });
  return sorted;
}

}  // namespace millrace
