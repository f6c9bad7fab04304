// The order with the lowest peak of all, for small problems.
#ifndef MILLRACE_PASSES_SCHEDULE_EXACT_MEMORY_ORDER_H_
#define MILLRACE_PASSES_SCHEDULE_EXACT_MEMORY_ORDER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "passes/schedule/lifetime_problem.h"

namespace millrace {

inline constexpr int32_t kMaxExactTasks = 64;

struct ExactMemoryLimits {
  int64_t good_enough_bytes = 0;                              // any peak of at most so many will do
  int64_t below_bytes = std::numeric_limits<int64_t>::max();  // no order with more is wanted
  int64_t max_work = 0;                                       // steps of about a nanosecond
};

struct ExactMemoryOrder {
  bool is_complete = false;    // else it gave up, after the work allowed
  std::vector<int32_t> order;  // empty when there is none below the limit
  int64_t peak_bytes = 0;      // of `order`
};

// An order with the lowest peak. Gives up on problems of more than kMaxExactTasks tasks. Adds its
// steps to `work`.
ExactMemoryOrder FindExactMemoryOrder(const LifetimeProblem& problem,
                                      const ExactMemoryLimits& limits, int64_t& work);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_EXACT_MEMORY_ORDER_H_
