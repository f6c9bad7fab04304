// The order with the lowest peak of all, for small problems.
#ifndef MILLRACE_PASSES_SCHEDULE_EXACT_MEMORY_ORDER_H_
#define MILLRACE_PASSES_SCHEDULE_EXACT_MEMORY_ORDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "passes/schedule/lifetime_problem.h"

namespace millrace {

inline constexpr int32_t kMaxExactTasks = 64;

struct ExactMemoryOrder {
  std::vector<int32_t> order;
  int64_t peak_bytes = 0;
};

// An order with the lowest peak, or with any peak of at most `good_enough_bytes`. nullopt after
// `max_work` steps of about a nanosecond, or when there are more than kMaxExactTasks tasks. Adds
// its steps to `work`.
std::optional<ExactMemoryOrder> FindExactMemoryOrder(const LifetimeProblem& problem,
                                                     int64_t good_enough_bytes, int64_t max_work,
                                                     int64_t& work);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_EXACT_MEMORY_ORDER_H_
