// A plan for tests of the plan's forms: two programs that say everything a plan can say. Not a
// right plan; nothing runs it.
#ifndef MILLRACE_TESTS_GRAPH_SAMPLE_PLAN_H_
#define MILLRACE_TESTS_GRAPH_SAMPLE_PLAN_H_

#include "graph/plan.h"

namespace millrace {

PlanBundle SamplePlan();

}  // namespace millrace

#endif  // MILLRACE_TESTS_GRAPH_SAMPLE_PLAN_H_
