// SectionIndex: a section of one program, unrolled: its instances in issue order, by stream, and
// who computes what. An instance is one instruction of one schedule item; the instructions of a
// Call's bodies belong to the Call's instance. The same for all coordinates of the mesh.
#ifndef MILLRACE_GRAPH_CHECK_SECTION_INDEX_H_
#define MILLRACE_GRAPH_CHECK_SECTION_INDEX_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/check/error_list.h"
#include "graph/check/plan_model.h"

namespace millrace {

struct IssuedInstance {
  int32_t item = 0;      // of the schedule
  int32_t index = 0;     // in the segment
  int32_t stream = 0;    // of ProgramSection::streams
  int32_t sequence = 0;  // 1-based place in its stream
  // Wait: the instance of its Record. Record: how many Waits are for it. Send, Recv, Collective:
  // its place among the program's communications. Others: -1.
  int32_t link = -1;
};

struct ProgramSection {
  std::vector<IssuedInstance> instances;      // in issue order
  std::vector<StreamId> stream_ids;           // of the streams in use
  std::vector<std::vector<int32_t>> streams;  // their instances
  std::vector<int32_t> communications;        // instances of Send, Recv, Collective

  // Updates that take effect in this program: at the end of `item`.
  struct Firing {
    int32_t item = 0;
    int32_t microbatch = 0;
  };
  std::vector<std::vector<Firing>> firings;  // by update, by ascending item
  std::vector<int32_t> updates_before;       // by item: firings of earlier items
};

// The first execution of a node for a microbatch: in the first program that runs it.
struct NodeExecution {
  int32_t program = 0;
  int32_t item = 0;
  int32_t count = 0;  // in all programs
};

struct SectionIndex {
  Section section = Section::kStep;
  std::vector<ProgramSection> programs;
  absl::flat_hash_map<int64_t, NodeExecution> executions;  // by ExecutionKey

  static int64_t ExecutionKey(int32_t global_node, int32_t microbatch) {
    return (int64_t{global_node} << 17) | microbatch;  // microbatches are at most 2^16
  }
  const NodeExecution* FindExecution(int32_t global_node, int32_t microbatch) const {
    const auto it = executions.find(ExecutionKey(global_node, microbatch));
    return it != executions.end() ? &it->second : nullptr;
  }
};

inline const ScheduleItem& ItemOf(const Program& program, Section section,
                                  const IssuedInstance& i) {
  return program.schedule(section)[i.item];
}
inline const Instruction& InstructionOf(const Program& program, Section section,
                                        const IssuedInstance& i) {
  return program.segments[ItemOf(program, section, i).segment.index].instructions[i.index];
}

// Unrolls the section; adds errors of events (kEvent) and of what is computed how often (kCompute).
// False, with an error, when there are too many instances to check.
bool IndexSection(const PlanModel& model, Section section, SectionIndex& index, ErrorList& errors);

// The node an instruction computes, as (graph, node); invalid for the others.
std::pair<int32_t, NodeId> NodeOf(const InstructionBody& body);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_SECTION_INDEX_H_
