// Constants of one element, as fused programs hold them.
#ifndef MILLRACE_PASSES_SCALAR_CONSTANT_H_
#define MILLRACE_PASSES_SCALAR_CONSTANT_H_

#include <optional>

#include "graph/graph.h"

namespace millrace {

// The one element of a constant, if a double holds it. `value` may be !valid().
std::optional<double> ScalarConstantOf(const Graph& graph, ValueId value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SCALAR_CONSTANT_H_
