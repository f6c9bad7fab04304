#include "passes/schedule/sync_streams.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/strings.h"
#include "passes/memory/access_log.h"
#include "passes/schedule/stream_plan.h"

namespace millrace {
namespace {

// What was done to an allocation last, by instruction.
struct LastUses {
  int32_t writer = -1;
  std::vector<int32_t> readers;  // since then
};

// The node of the outermost graph that an instruction computes; !valid(): none.
NodeId NodeOf(const Instruction& instruction) {
  const auto of = [](const auto* body) {
    return body != nullptr && body->graph == 0 ? body->node : NodeId();
  };
  for (const NodeId node :
       {of(std::get_if<Launch>(&instruction.body)), of(std::get_if<Call>(&instruction.body)),
        of(std::get_if<HostCall>(&instruction.body))}) {
    if (node.valid()) return node;
  }
  if (const auto* collective = std::get_if<Collective>(&instruction.body)) return collective->node;
  return NodeId();
}

// Nodes come after those that they ask to come after, though no bytes say so.
void AddControlEdges(const Graph& graph, const std::vector<Instruction>& step,
                     ScheduleProblem& problem) {
  std::vector<int32_t> instruction_of(graph.nodes.size(), -1);
  for (size_t i = 0; i < step.size(); ++i) {
    const NodeId node = NodeOf(step[i]);
    if (!node.valid()) continue;
    instruction_of[node.index] = static_cast<int32_t>(i);
    for (const NodeId before : graph.node(node).after) {
      const int32_t earlier = instruction_of[before.index];
      if (earlier >= 0) problem.edges.push_back({earlier, static_cast<int32_t>(i)});
    }
  }
}

// Instructions of the step as tasks, with an edge wherever one must not overtake another. What
// happens in the bodies of a Call is the Call's.
ScheduleProblem InstructionOrder(const Graph& graph, const Program& program, const AccessLog& log,
                                 std::span<const int32_t> allocation_of_slice) {
  const std::vector<Instruction>& step = program.segments[0].instructions;
  ScheduleProblem problem;
  problem.tasks.resize(step.size());
  absl::flat_hash_map<const Instruction*, int32_t> index;
  for (size_t i = 0; i < step.size(); ++i) index[&step[i]] = static_cast<int32_t>(i);
  absl::flat_hash_map<int32_t, LastUses> uses;  // by allocation
  int32_t current = -1;
  const auto after = [&](int32_t before) {
    if (before >= 0 && before != current) problem.edges.push_back({before, current});
  };
  for (int32_t m = 0; m < log.num_moments(); ++m) {
    const Instruction* instruction = log.moments[m].instruction;
    if (instruction == nullptr) continue;
    if (const auto it = index.find(instruction); it != index.end()) current = it->second;
    for (const Access& access : log.AccessesOf(m)) {
      LastUses& last = uses[allocation_of_slice[access.slice.index]];
      after(last.writer);
      if (!access.writes) {
        last.readers.push_back(current);
        continue;
      }
      for (const int32_t reader : last.readers) after(reader);
      last = {current, {}};
    }
  }
  AddControlEdges(graph, step, problem);
  return problem;
}

}  // namespace

void SyncStreams(std::span<const Graph* const> graphs, std::span<const int32_t> allocation_of_slice,
                 Program& program) {
  const ScheduleProblem problem =
      InstructionOrder(*graphs[0], program, LogAccesses(program, graphs), allocation_of_slice);
  std::vector<Instruction>& step = program.segments[0].instructions;
  StreamAssignment assignment;
  assignment.order.resize(step.size());
  std::iota(assignment.order.begin(), assignment.order.end(), 0);
  for (const Instruction& instruction : step) {
    assignment.stream.push_back(instruction.stream.index);
  }
  std::vector<EventId> recorded(step.size());
  std::vector<std::vector<int32_t>> waits_for(step.size());
  for (const StreamEvent& event : FewestEvents(problem, assignment)) {
    waits_for[event.to].push_back(event.from);
    if (recorded[event.from].valid()) continue;
    recorded[event.from] = EventId(program.events.size());
    program.events.push_back(StrCat("e", program.events.size()));
  }
  std::vector<Instruction> synced;
  for (size_t i = 0; i < step.size(); ++i) {
    const StreamId stream = step[i].stream;
    for (const int32_t from : waits_for[i]) synced.push_back({stream, Wait{recorded[from]}});
    synced.push_back(std::move(step[i]));
    if (recorded[i].valid()) synced.push_back({stream, Record{recorded[i]}});
  }
  step = std::move(synced);
}

}  // namespace millrace
