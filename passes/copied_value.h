// Nodes that give back what they are given, bit for bit.
#ifndef MILLRACE_PASSES_COPIED_VALUE_H_
#define MILLRACE_PASSES_COPIED_VALUE_H_

#include "graph/graph.h"

namespace millrace {

// The value that the node's one result always equals in type and in every bit, or !valid(): x of
// Identity(x), of Reshape(x) to its own shape, of x * 1, of Neg(Neg(x)). NaNs may lose that they
// signal. O(operands + dims).
ValueId CopiedValue(const Graph& graph, const Node& node);

}  // namespace millrace

#endif  // MILLRACE_PASSES_COPIED_VALUE_H_
