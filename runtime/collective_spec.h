// What a comm.* node of a plan asks of a Group.
#ifndef MILLRACE_RUNTIME_COLLECTIVE_SPEC_H_
#define MILLRACE_RUNTIME_COLLECTIVE_SPEC_H_

#include <vector>

#include "graph/graph.h"
#include "graph/status.h"
#include "runtime/communicator.h"

namespace millrace {

// From the node's op and its attributes "op" (the reduction; "sum" when absent) and "root" (0).
absl::StatusOr<CollectiveSpec> CollectiveSpecOf(const Node& node, const TensorType& input);

// The mesh axes that attribute "axis" names (one name, or a list), ascending.
absl::StatusOr<std::vector<int>> CollectiveAxes(const Node& node, const Mesh& mesh);

// The endpoints that run the node together with `self`, in rank order: all coordinates on its
// mesh axes, the others as self's; the mesh's order.
absl::StatusOr<std::vector<Endpoint>> CollectiveMembers(const Node& node, const Mesh& mesh,
                                                        const Endpoint& self);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_COLLECTIVE_SPEC_H_
