// Orders tasks so that as little memory as possible is live at once: the best order there is where
// the problem is small or falls into small parts, a good one otherwise.
#ifndef MILLRACE_PASSES_SCHEDULE_MEMORY_ORDER_H_
#define MILLRACE_PASSES_SCHEDULE_MEMORY_ORDER_H_

#include <cstdint>
#include <vector>

#include "passes/schedule/schedule_problem.h"

namespace millrace {

struct MemoryOrderOptions {
  // When to stop searching, in steps of about a nanosecond, counted so that the result does not
  // depend on the machine. What is quick is done all the same.
  int64_t max_work = 40'000'000;
  // Parts of at most so many tasks are searched for the best order; at most 64.
  int32_t max_exact_tasks = 64;
};

struct MemoryOrder {
  std::vector<int32_t> order;
  int64_t peak_bytes = 0;
  int64_t given_peak_bytes = 0;   // of the tasks in the order of their numbers
  int64_t lower_bound_bytes = 0;  // no order's peak is lower: peak_bytes, if that is proved
  int64_t work = 0;
};

// Deterministic. The peak is never higher than the given order's; where it is the same, so is the
// order, and what runs far from any peak stays as it is.
MemoryOrder OrderForMemory(const ScheduleProblem& problem, const MemoryOrderOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_MEMORY_ORDER_H_
