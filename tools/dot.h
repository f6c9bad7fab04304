// Graphs and plans as Graphviz text, for `dot -Tsvg`.
#ifndef MILLRACE_TOOLS_DOT_H_
#define MILLRACE_TOOLS_DOT_H_

#include <string>

#include "graph/graph.h"
#include "graph/plan.h"

namespace millrace {

// A box a node, labelled with its name and op; edges carry types. Nested graphs are clusters.
std::string ToDot(const Graph& graph);

// A cluster a program and a column a stream: the step section's instructions in stream order, with
// arrows from Record to Wait and from Send to Recv. One program stands for all its devices.
std::string ToDot(const PlanBundle& plan);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_DOT_H_
