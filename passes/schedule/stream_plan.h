// Spreads tasks over streams, so that what does not depend on each other runs side by side.
//
// A stream runs its tasks one after another, in issue order. A task that needs one of another
// stream waits for an event that is recorded right after that one.
#ifndef MILLRACE_PASSES_SCHEDULE_STREAM_PLAN_H_
#define MILLRACE_PASSES_SCHEDULE_STREAM_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "passes/schedule/lifetime_problem.h"
#include "passes/schedule/schedule_problem.h"

namespace millrace {

// What it costs to use streams.
struct StreamCosts {
  double event_us = 0;  // from the end of a task to the start of one on another stream
  double issue_us = 0;  // a task cannot start before the host has issued it and those ahead of it
};

struct StreamEvent {
  int32_t from = 0, to = 0;  // tasks
  bool operator==(const StreamEvent&) const = default;
};

struct StreamAssignment {
  std::vector<int32_t> order;   // of issue: all tasks
  std::vector<int32_t> stream;  // by task
};

struct StreamPlan {
  int32_t num_streams = 1;
  StreamAssignment assignment;
  std::vector<StreamEvent> events;  // ascending by `to` in issue order, then by `from`
  double makespan_us = 0;           // every task taking its time_us
  double shared_us = 0;             // tasks slowing each other down where they share the device
  double critical_path_us = 0;      // the longest chain of tasks, without events
  double work_us = 0;               // all tasks, one after another

  // No assignment to as many streams has a lower makespan.
  double lower_bound_us() const;
};

struct StreamOptions {
  int32_t num_streams = 2;
  StreamCosts costs = {};
  int64_t max_work = 20'000'000;  // steps of about a nanosecond, counted
};

// On exactly so many streams, of which some may stay empty. Deterministic. The makespan is never
// longer than on one stream.
StreamPlan AssignStreams(const ScheduleProblem& problem, const StreamOptions& options);

// All tasks on one stream in the order given.
StreamPlan OneStream(const ScheduleProblem& problem, const StreamCosts& costs = {});

// --- Its parts ----------------------------------------------------------------------------------

// When each task starts, if each starts as soon as its stream, its events and the host allow.
std::vector<double> StartTimes(const ScheduleProblem& problem, const StreamAssignment& assignment,
                               const StreamCosts& costs);
double MakespanOf(const ScheduleProblem& problem, const StreamAssignment& assignment,
                  const StreamCosts& costs);
// The same, for callers that have the lists of what comes before each task.
double MakespanOf(const ScheduleProblem& problem, const IndexLists& before,
                  const StreamAssignment& assignment, const StreamCosts& costs);

// The same, but where the tasks that run at one time use more than all of the device's arithmetic
// or bandwidth, all of them slow down by that factor, as the simulator has it.
double SharedMakespanOf(const ScheduleProblem& problem, const StreamAssignment& assignment,
                        const StreamCosts& costs);

// The fewest events from producers to readers (and along other edges) that, together with the order
// of each stream, order whatever has to be: a transitive reduction, which is unique.
std::vector<StreamEvent> FewestEvents(const ScheduleProblem& problem,
                                      const StreamAssignment& assignment);

// The shortest makespan of all on `num_streams` streams, by branch and bound; a negative number
// after `max_work` steps. For small problems: the oracle of AssignStreams.
double ExactMakespan(const ScheduleProblem& problem, int32_t num_streams, const StreamCosts& costs,
                     int64_t max_work);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_STREAM_PLAN_H_
