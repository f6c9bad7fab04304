// Random scheduling problems, and all the orders of small ones.
#ifndef MILLRACE_TESTS_PASSES_RANDOM_SCHEDULE_H_
#define MILLRACE_TESTS_PASSES_RANDOM_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <random>
#include <span>

#include "passes/schedule/schedule_problem.h"

namespace millrace {

struct RandomScheduleShape {
  int32_t tasks = 10;
  int32_t reach = 6;            // a task reads results of at most so many tasks before it
  double reads_per_task = 1.6;  // on average
  bool workspaces = false;
  bool extra_edges = false;
};
ScheduleProblem RandomSchedule(std::mt19937& random, const RandomScheduleShape& shape);

// `num_blocks` towers of `width` branches of `depth` tasks each, one after another; what a branch
// makes is large inside and small at its end, or the other way round.
ScheduleProblem BranchedSchedule(std::mt19937& random, int32_t num_blocks, int32_t width,
                                 int32_t depth);

// In lexicographic order.
void ForEachOrder(const ScheduleProblem& problem,
                  const std::function<void(std::span<const int32_t>)>& visit);

}  // namespace millrace

#endif  // MILLRACE_TESTS_PASSES_RANDOM_SCHEDULE_H_
