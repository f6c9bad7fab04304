// Random tiny plans that are usually right, and random mutants of them that usually are not.
#ifndef MILLRACE_TESTS_CHECK_RANDOM_PLAN_H_
#define MILLRACE_TESTS_CHECK_RANDOM_PLAN_H_

#include <random>

#include "graph/plan.h"

namespace millrace {

// One or two programs of one to three streams, two to four nodes over u8[2] values, one or two
// microbatches, sometimes a param that is updated, sometimes an init section.
PlanBundle RandomPlan(std::mt19937& random);

// One change somewhere: an instruction dropped, repeated, moved to its neighbour's place or another
// stream, an offset, operand, event or schedule item changed. Ids stay valid.
void Mutate(std::mt19937& random, PlanBundle& plan);

// One id or number set to something it should not be. For plans that only must not crash the
// checker.
void Corrupt(std::mt19937& random, PlanBundle& plan);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CHECK_RANDOM_PLAN_H_
