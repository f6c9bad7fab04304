// ShardingChoice: how a graph is to be spread over a mesh. Plain data between those who choose
// (hints and propagation, or a solver) and the lowering, which carries it out.
#ifndef MILLRACE_PASSES_PARALLEL_SHARDING_CHOICE_H_
#define MILLRACE_PASSES_PARALLEL_SHARDING_CHOICE_H_

#include <map>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/mesh.h"
#include "ops/op_def.h"

namespace millrace {

struct ShardingChoice {
  Mesh mesh;
  // By node of the graph and mesh axis: the rule of its op that is applied along that axis, with an
  // entry per operand. A rule without entries: the node's operands are replicated.
  std::vector<std::vector<ShardingRule>> rules = {};
  // Of inputs, params and constants, Replicate or Shard on each axis. Those not here are
  // replicated; a constant may be had in other shardings too, at no cost.
  std::map<ValueId, Sharding> leaves = {};
  // Of results that are turned into another sharding right after they come to be, before anybody
  // reads them.
  std::map<ValueId, Sharding> results = {};
  // What graph outputs are turned into, likewise. Those not here: as their node gives them, partial
  // sums summed up. (What a param is updated with gets the param's sharding.)
  std::map<ValueId, Sharding> outputs = {};
};

// Replicated on all axes of a mesh.
inline Sharding ReplicatedOn(const Mesh& mesh) {
  return {std::vector<AxisSharding>(mesh.axes.size())};
}

// What the rules of one node say of an operand over all axes.
Sharding InputSharding(const ShardingChoice& choice, NodeId node, size_t input);
Sharding OutputSharding(const ShardingChoice& choice, NodeId node, size_t output);

// The type of one device's part. Dims that are not cut evenly: nullopt.
std::optional<TensorType> LocalType(const TensorType& whole, const Sharding& sharding,
                                    const Mesh& mesh);

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_SHARDING_CHOICE_H_
