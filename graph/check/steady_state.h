// SteadyState: what holds at the end of one step and so at the beginning of the next. A step is
// right for ever when it is right from one state and leaves at least what it began with.
#ifndef MILLRACE_GRAPH_CHECK_STEADY_STATE_H_
#define MILLRACE_GRAPH_CHECK_STEADY_STATE_H_

#include <cstdint>
#include <vector>

#include "graph/check/expectations.h"
#include "graph/check/memory_model.h"
#include "graph/check/terms.h"

namespace millrace {

// Rewrites all bytes, and `params` (given as the newest terms after the step), from the view of the
// step that ended to that of the next: the newest version of a param becomes "the param at the
// start of the step", whatever else the step computed from its inputs becomes unreadable.
void BeginNextStep(const PlanModel& model, const MeshClasses& classes, Terms& terms,
                   ParamTerms& params, MemoryModel& memory);

// The bytes that a later step may still read.
struct MemorySnapshot {
  struct Piece {
    int32_t site = 0;
    BufferId buffer;
    int64_t begin = 0, end = 0;
    Content content;
  };
  std::vector<Piece> pieces;
};
MemorySnapshot TakeSnapshot(const Terms& terms, MemoryModel& memory);

// Whether memory still holds all of the snapshot.
bool Holds(MemoryModel& memory, const MemorySnapshot& snapshot);

// Every param with a term of its own, as the session loads them.
ParamTerms LoadedParams(const PlanModel& model, const MeshClasses& classes,
                        Expectations& expectations);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_CHECK_STEADY_STATE_H_
