// The second opinion on tiny plans: executes them, in every order their streams, events and
// meetings allow, on memory whose bytes are symbols, for several steps. Shares nothing with the
// checker: no clocks, no intervals, no terms. For plans of dense u8 values without nested graphs on
// one coordinate.
#ifndef MILLRACE_TESTS_CHECK_EVERY_ORDER_H_
#define MILLRACE_TESTS_CHECK_EVERY_ORDER_H_

#include <string>

#include "graph/op_traits.h"
#include "graph/plan.h"

namespace millrace {

// "" when every order is right, else what went wrong in one: two instructions that can happen at
// once and touch the same bytes, one writing; a read of other bytes than the graph says; a
// deadlock; bytes outside a buffer or overwritten within an instruction.
std::string TryEveryOrder(const PlanBundle& plan, const OpTraitsTable& traits);

}  // namespace millrace

#endif  // MILLRACE_TESTS_CHECK_EVERY_ORDER_H_
