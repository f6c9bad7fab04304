// What a user says on the command line about how a graph is spread.
#ifndef MILLRACE_PASSES_PARALLEL_SHARDING_HINTS_H_
#define MILLRACE_PASSES_PARALLEL_SHARDING_HINTS_H_

#include <string_view>

#include "graph/graph.h"
#include "graph/status.h"

namespace millrace {

// "data=2,tensor=2" as the graph's mesh, in place of the one it has. UsageError: no mesh, or the
// graph has local types already, or shardings that name an axis which is not there any more.
absl::Status SetMesh(Graph& graph, std::string_view mesh);

// "w*=tensor:1": inputs and params whose names match (* stands for any characters, ? for one) are
// sharded so; a name without * and ? may be that of any value. UsageError when none matches, or
// what is asked for is no sharding over the graph's mesh.
absl::Status AddShardingHint(Graph& graph, std::string_view hint);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_SHARDING_HINTS_H_
