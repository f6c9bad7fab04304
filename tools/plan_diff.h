// How two plans differ in what they do: their graphs (graph_diff.h), where values lie, and what runs
// on which stream. Names of nodes and results, the order of buffers and slices, and how instructions
// of different streams are written between each other mean nothing.
#ifndef MILLRACE_TOOLS_PLAN_DIFF_H_
#define MILLRACE_TOOLS_PLAN_DIFF_H_

#include <vector>

#include "graph/plan.h"
#include "tools/graph_diff.h"

namespace millrace {

// O(size of the plans), and for instructions the product of the stretches that differ.
std::vector<Difference> DiffPlans(const PlanBundle& a, const PlanBundle& b);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_PLAN_DIFF_H_
