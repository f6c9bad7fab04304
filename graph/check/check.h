// The plan checker: proves of a PlanBundle, or refuses with a counterexample, that every execution
// its streams and events allow computes what the embedded graph says. It derives all effects from
// the embedded graph and op traits, never from who emitted the plan, and shares no code with the
// planners.
#ifndef MILLRACE_GRAPH_CHECK_CHECK_H_
#define MILLRACE_GRAPH_CHECK_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/machine.h"
#include "graph/op_traits.h"
#include "graph/plan.h"
#include "graph/status.h"

namespace millrace {

enum class PlanRule : uint8_t {
  kStructure,  // ids, operand counts, node and segment graphs, variant missing
  kBounds,     // a slice outside its buffer, too small for its value, misaligned for its type
  kSpace,      // an operand in memory the instruction cannot reach
  kCompute,    // a node instance never computed, computed twice with effect, or wrong inputs
  kStaleRead,  // bytes hold another value, version, microbatch or shard than the read needs
  kRace,       // two instructions touch the same bytes, one writes, and neither must come first
  kAlias,      // operands of one instruction overlap in a way its op does not allow
  kEvent,      // Wait without an earlier Record, one event recorded on two streams
  kComm,       // Send without Recv, sizes, dtypes or collective order differ
  kDeadlock,   // a cycle of instructions that wait for each other
  kCapacity,   // buffers exceed the device's memory
  kBinding,    // inputs, params, constants or outputs not bound, or not there when read
};
std::string_view PlanRuleName(PlanRule rule);  // "structure", "bounds", ...

struct PlanError {
  PlanRule rule = PlanRule::kStructure;
  // A full explanation: both instructions, the bytes, and what is missing, e.g.
  //   "race in program 'stage0' buffer 'arena' bytes [4096,8192): stream 'copy' #12 copy ... reads
  //    while stream 'main' #14 launch ... writes; nothing orders them: a wait on 'main' for an
  //    event recorded on 'copy' after #12 is missing"
  std::string message;
};

struct CheckReport {
  std::vector<PlanError> errors;  // at most 20; the first is the one to mend first
  int64_t total_errors = 0;
  int64_t instructions = 0;  // instances checked
  int64_t accesses = 0;      // byte ranges checked
  bool ok() const { return total_errors == 0; }
};

// `machine` may be null: capacities are then not checked.
CheckReport CheckPlan(const PlanBundle& plan, const OpTraitsTable& traits,
                      const MachineSpec* machine);

// "plan refused: 2 errors\n1. race in program ...", or "ok: ..." with what was proved.
std::string FormatReport(const CheckReport& report);

// A plan that passed the checker: the only thing that runs.
class CheckedPlan {
 public:
  // CheckFailedError with FormatReport when refused.
  static absl::StatusOr<CheckedPlan> Check(PlanBundle plan, const OpTraitsTable& traits,
                                           const MachineSpec* machine);
  const PlanBundle& plan() const { return plan_; }

 private:
  explicit CheckedPlan(PlanBundle plan) : plan_(std::move(plan)) {}
  PlanBundle plan_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_CHECK_H_
