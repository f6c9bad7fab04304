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
#include "absl/functional/function_ref.h"
#include "graph/check/expectations.h"
#include "graph/check/happens_before.h"
#include "graph/check/memory_model.h"
#include "graph/control_flow.h"

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
  std::string PackingOf(const Accessor& who, const NodeRun& run, SliceId slice, int32_t index,
                        bool is_output) const;
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

  // A call being run: of `node`, which is global, applied to `inputs`, which are terms.
  struct CallRun {
    const Call& call;
    const CallForm& form;
    int32_t node = 0;
    std::span<const int32_t> inputs;
  };
  void RunBranches(const Accessor& who, const CallRun& run);
  void RunLoop(const Accessor& who, const CallRun& run);
  std::vector<OldContent> RunTrip(const Accessor& who, const CallRun& run,
                                  std::span<const OldContent> earlier);
  void BeginTrip(const Accessor& who, const CallRun& run);
  void EndTrip(const Accessor& who, const CallRun& run);
  int32_t TripTermOf(const Accessor& who, SliceId slice);
  void WriteTrip(const Accessor& who, SliceId slice);
  void ReadInput(const Accessor& who, const CallRun& run, int input);
  // An output of a body that is at its end.
  void ReadOutput(const Accessor& who, int32_t graph, const CallBody& body, size_t output);
  // What the bytes that `body` writes hold at its end. The state is put back.
  std::vector<OldContent> Rehearse(absl::FunctionRef<void()> body);
  void RunInstructions(const Accessor& who, const CallBody& body);
  void CheckBorder(const Accessor& who, const CallRun& run, const CallBody& body, SliceId inside,
                   SliceId outside);
  // Bytes that the bodies leave differently hold `otherwise`.
  void MergeBodies(int32_t site, int32_t otherwise, std::vector<std::vector<OldContent>> results);

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
