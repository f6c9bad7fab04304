// One node as a device sees it: the types of its parts, and the operands that state shapes.
#ifndef MILLRACE_PASSES_PARALLEL_LOCAL_NODE_H_
#define MILLRACE_PASSES_PARALLEL_LOCAL_NODE_H_

#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "graph/target.h"
#include "ops/known_values.h"
#include "ops/op_def.h"

namespace millrace {

// Input i states the shape of output 0 (Reshape's, Expand's), dim by dim: where the output is cut,
// a device states that of its part.
bool StatesShape(const Graph& graph, const Node& node, size_t i);

// The input of the op that tells a device which part of the whole it has (Dropout's `place`: the
// first element along each dim, then the dims of the whole); -1: it has none.
int PlaceOperand(const Node& node);

// i64[rank]: the dims of a type, as such operands want them.
Tensor DimsTensor(const TensorType& type);

// `query` with its operands cut along one axis of `parts` devices by `rule`; nullopt where a dim is
// not cut evenly.
std::optional<NodeQuery> CutQuery(const NodeQuery& query, const ShardingRule& rule, int64_t parts);

// That the op, run on the cut operands with the node's attributes, gives results of the cut types:
// whatever the rule promises, a part of another size would be no part.
bool GivesItsParts(const Graph& graph, const Node& node, const NodeQuery& cut, KnownValues& known);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_LOCAL_NODE_H_
