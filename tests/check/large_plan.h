// Plans of any size, right by construction: for measuring the checker.
#ifndef MILLRACE_TESTS_CHECK_LARGE_PLAN_H_
#define MILLRACE_TESTS_CHECK_LARGE_PLAN_H_

#include <cstdint>

#include "graph/plan.h"

namespace millrace {

struct LargePlanOptions {
  int64_t nodes = 100000;
  int streams = 1;
  int microbatches = 1;
  // Values lie one after another (as the first emitter places them), or in a ring of reused slots.
  bool reuse = false;
};

// A tower: each node reads the result of the one before and of the last one on its stream. With
// several streams nodes go round, and events order them.
PlanBundle LargePlan(const LargePlanOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CHECK_LARGE_PLAN_H_
