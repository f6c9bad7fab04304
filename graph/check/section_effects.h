// SectionEffects: what each instruction of a section reads, writes and must find, derived from the
// graph. Fed by HappensBefore, it asks MemoryModel.
#ifndef MILLRACE_GRAPH_CHECK_SECTION_EFFECTS_H_
#define MILLRACE_GRAPH_CHECK_SECTION_EFFECTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/check/expectations.h"
#include "graph/check/happens_before.h"
#include "graph/check/memory_model.h"

namespace millrace {

class SectionEffects {
 public:
  SectionEffects(const PlanNames& names, std::span<const PlanSite> sites, const SectionIndex& index,
                 const HappensBefore& order, Expectations& expectations, const Terms& terms,
                 MemoryModel& memory, ErrorList& errors);

  void Visit(std::span<const Arrival> arrivals, ClockView clock);

 private:
  // The operands of a node, whatever instruction runs it.
  struct NodeRun {
    int32_t graph = 0;
    NodeId node;
    std::span<const SliceId> inputs, outputs;
    SliceId scratch;
    std::string_view variant;
  };
  struct Operand {
    PlacedSlice place;
    int32_t index = 0;
    bool is_output = false;  // scratch: an output without index
  };

  Accessor AccessorOf(const Arrival& arrival, ClockView clock) const;
  void Run(const Accessor& who, const Instruction& instruction);
  void RunNode(const Accessor& who, const NodeRun& run);
  void RunCopy(const Accessor& who, const Copy& copy);
  void RunCall(const Accessor& who, const Call& call);
  void Transfer(const Arrival& send, const Arrival& recv, ClockView clock);

  SchedulePosition PositionOf(const Accessor& who) const;
  int32_t ApplicationOf(const Accessor& who, int32_t global_node);
  void CheckAfter(const Accessor& who, int32_t global_node);
  void CheckAlias(const Accessor& who, const NodeRun& run, std::span<const Operand> operands);
  bool IsInPlace(const Accessor& who, const NodeRun& run, const Operand& output,
                 const Operand& input) const;
  void ReportAlias(const Accessor& who, const PlacedSlice& a, const PlacedSlice& b,
                   std::string_view what);

  // One body of a call, from the state before the call: what its bytes hold at the end. The state
  // is put back.
  std::vector<OldContent> RunBody(const Accessor& who, const CallBody& body, int32_t graph);
  void CheckBorder(const Accessor& who, const Node& node, const CallBody& body,
                   std::span<const SliceId> inside, std::span<const SliceId> outside);
  void MergeBodies(int32_t site, std::vector<std::vector<OldContent>> results);

  const PlanNames& names_;
  const PlanModel& model_;
  std::span<const PlanSite> sites_;
  const SectionIndex& index_;
  const HappensBefore& order_;
  Expectations& expectations_;
  const Terms& terms_;
  MemoryModel& memory_;
  ErrorList& errors_;

  std::vector<bool> is_awaited_;  // by global node: some node runs `after` it
  // First execution of awaited nodes, by (coordinate, ExecutionKey).
  absl::flat_hash_map<std::pair<int32_t, int64_t>, Arrival> executed_;
  std::vector<MovedPiece> pieces_;  // scratch of copies
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_SECTION_EFFECTS_H_
