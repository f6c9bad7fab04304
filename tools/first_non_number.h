// Where a step first makes something that is no number.
#ifndef MILLRACE_TOOLS_FIRST_NON_NUMBER_H_
#define MILLRACE_TOOLS_FIRST_NON_NUMBER_H_

#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// Evaluates a typed graph by the ops' reference kernels, with these params instead of its own data
// where they are given, and says which node first gives a NaN, or, if none does, an infinity, from
// what has none: "node 'log' (Log) makes a nan of ...". The same of inputs and params that have
// one.
absl::StatusOr<std::string> FirstNonNumber(Graph graph, const std::map<std::string, Tensor>& inputs,
                                           const std::map<std::string, Tensor>& params);

}  // namespace millrace

#endif  // MILLRACE_TOOLS_FIRST_NON_NUMBER_H_
