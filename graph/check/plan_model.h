// PlanModel: a plan whose structure was found sound, with what every later step of the check looks
// up again and again.
#ifndef MILLRACE_GRAPH_CHECK_PLAN_MODEL_H_
#define MILLRACE_GRAPH_CHECK_PLAN_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/check/error_list.h"
#include "graph/check/footprint.h"
#include "graph/check/graph_index.h"
#include "graph/plan.h"

namespace millrace {

struct PlanModel {
  const PlanBundle* plan = nullptr;
  GraphIndex graphs;
  std::vector<std::vector<Footprint>> footprints;  // by program and slice
  std::vector<bool> is_filled, is_output;  // graph 0: values the session puts or reads somewhere

  const Program& program(int32_t p) const { return plan->programs[p]; }
};

// Host code, or a kernel of the program's device, can touch the buffer.
bool IsHostReachable(const Program& program, const PlanBuffer& buffer);
bool IsDeviceReachable(const Program& program, const PlanBuffer& buffer);

// Everything that can be said without running: ids, counts, operands, spaces, expressions. The
// model may be used when no error was added.
PlanModel CheckStructure(const PlanBundle& plan, const OpTraitsTable& traits, ErrorList& errors);

// The part of it that looks at one instruction (instruction_rules.cc). Ids of slices are checked
// here, slices themselves and the stream before.
void CheckInstruction(const PlanModel& model, int32_t program, int32_t segment, int32_t index,
                      ErrorList& errors);

// "program 'stage0' segment 'forward' instruction 3 (Launch)"
std::string InstructionPlace(const Program& program, int32_t segment, int32_t index);

// Whether the expression only uses what plans have: microbatch and existing mesh axes.
bool IsValidExpr(const LinearExpr& expr, const Mesh& mesh);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_PLAN_MODEL_H_
