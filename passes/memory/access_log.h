// AccessLog: a program unrolled to moments in issue order, with the slices each of them touches.
// What planners need to know of a program to say when its memory is in use.
//
// A moment is an instruction's instance, one border of a Call (entry, begin and end of a loop's
// trip, exit), or the session's part between sections. A loop's body stands there once, as a span:
// what lives across one of its trips lives through all of them. So does the step, which runs any
// number of times.
#ifndef MILLRACE_PASSES_MEMORY_ACCESS_LOG_H_
#define MILLRACE_PASSES_MEMORY_ACCESS_LOG_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/plan.h"

namespace millrace {

struct Access {
  SliceId slice;
  bool writes = false;
};

struct Moment {
  const Instruction* instruction = nullptr;  // null: the session, ordered against everything
  int32_t stream = -1;                       // -1: the session
  int32_t microbatch = 0;
  int32_t loop = -1;  // the innermost around it
  int32_t first_access = 0;
};

// Moments strictly between `begin` and `end` happen any number of times.
struct LoopSpan {
  int32_t begin = 0, end = 0;
  int32_t parent = -1;
};

struct AccessLog {
  std::vector<Moment> moments;
  std::vector<Access> accesses;  // by moment; reads before writes
  std::vector<LoopSpan> loops;   // parents first

  int32_t num_moments() const { return static_cast<int32_t>(moments.size()); }
  std::span<const Access> AccessesOf(int32_t moment) const;
};

// `graphs` are the bundle's (FlattenGraphs). The plan is structurally sound. Offsets are not looked
// at. The first moment is the session's loading, the last the end of everything.
AccessLog LogAccesses(const Program& program, std::span<const Graph* const> graphs);

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_ACCESS_LOG_H_
