// The fewest events. Each task has a clock: by stream, how many of its tasks are known to be done
// when this one starts. It is that of the task before it on its stream, joined with the clocks of
// those it waits for. What a task needs is looked at stream by stream, the last task needed of
// each: it takes an event only if neither the task's own stream nor another event has brought the
// news. O(tasks * streams^2 + edges).
#include <algorithm>

#include "passes/schedule/lifetime_problem.h"
#include "passes/schedule/stream_plan.h"

namespace millrace {

std::vector<StreamEvent> FewestEvents(const ScheduleProblem& problem,
                                      const StreamAssignment& assignment) {
  const IndexLists before = LifetimesOf(problem).before;
  int32_t num_streams = 0;
  for (const int32_t s : assignment.stream) num_streams = std::max(num_streams, s + 1);
  std::vector<std::vector<int32_t>> tasks_of(num_streams);        // so far
  std::vector<int32_t> place(problem.tasks.size());               // on its stream, from 1
  std::vector<std::vector<int32_t>> clock(problem.tasks.size());  // own end included
  std::vector<StreamEvent> events;
  for (const int32_t task : assignment.order) {
    const int32_t own = assignment.stream[task];
    std::vector<int32_t> known =
        tasks_of[own].empty() ? std::vector<int32_t>(num_streams, 0) : clock[tasks_of[own].back()];
    std::vector<int32_t> needed(num_streams, 0);  // by stream: up to which place
    for (const int32_t b : before[task]) {
      int32_t& last = needed[assignment.stream[b]];
      last = std::max(last, place[b]);
    }
    std::vector<int32_t> waits_for;
    for (int32_t s = 0; s < num_streams; ++s) {
      if (s != own && needed[s] > known[s]) waits_for.push_back(tasks_of[s][needed[s] - 1]);
    }
    const size_t first_event = events.size();
    for (const int32_t b : waits_for) {
      const int32_t stream = assignment.stream[b];
      const bool is_told = std::ranges::any_of(
          waits_for, [&](int32_t other) { return other != b && clock[other][stream] >= place[b]; });
      if (!is_told) events.push_back({b, task});
    }
    std::sort(events.begin() + static_cast<std::ptrdiff_t>(first_event), events.end(),
              [](const StreamEvent& a, const StreamEvent& b) { return a.from < b.from; });
    for (const int32_t b : waits_for) {
      for (int32_t s = 0; s < num_streams; ++s) known[s] = std::max(known[s], clock[b][s]);
    }
    tasks_of[own].push_back(task);
    place[task] = known[own] = static_cast<int32_t>(tasks_of[own].size());
    clock[task] = std::move(known);
  }
  return events;
}

}  // namespace millrace
