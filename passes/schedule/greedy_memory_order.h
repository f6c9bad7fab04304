// A quick order with a low peak, for problems of any size.
#ifndef MILLRACE_PASSES_SCHEDULE_GREEDY_MEMORY_ORDER_H_
#define MILLRACE_PASSES_SCHEDULE_GREEDY_MEMORY_ORDER_H_

#include <cstdint>
#include <vector>

#include "passes/schedule/lifetime_problem.h"

namespace millrace {

// `lookahead`: how many tasks a choice looks at, at least 1. Adds its steps, of about a nanosecond,
// to `work`. O((tasks + uses) (lookahead + log tasks)) where lists of successors are short.
std::vector<int32_t> GreedyMemoryOrder(const LifetimeProblem& problem, int32_t lookahead,
                                       int64_t& work);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCHEDULE_GREEDY_MEMORY_ORDER_H_
