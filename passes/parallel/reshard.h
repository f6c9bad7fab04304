// Resharding: the cheapest sequence of collectives that turns one sharding of a value into another.
#ifndef MILLRACE_PASSES_PARALLEL_RESHARD_H_
#define MILLRACE_PASSES_PARALLEL_RESHARD_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/machine.h"
#include "graph/mesh.h"
#include "graph/op_traits.h"
#include "graph/types.h"

namespace millrace {

struct ReshardStep {
  // kAllReduce: Partial to Replicate, over one axis or several. kReduceScatter: Partial to
  // Shard(to_dim). kAllGather: Shard(from_dim) to Replicate. kAllToAll: Shard(from_dim) to
  // Shard(to_dim). kNone: Replicate to Shard(to_dim): each device takes its part, nothing moves.
  CommKind comm = CommKind::kNone;
  std::vector<int> axes;  // of the mesh, ascending; one of them, but for kAllReduce
  int from_dim = -1, to_dim = -1;
  Reduction reduction = Reduction::kSum;
  double bytes = 0;  // what one device puts in
  double time_us = 0;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;  // none: they are the same
  double seconds = 0;
};

// The links that the mesh's devices are joined by: device `first + linear coordinate` of a kind.
struct ReshardLinks {
  const MachineSpec* machine = nullptr;  // null: bytes count, at 10 GB/s and 5 us a step
  std::string_view kind = "cpu";
  int64_t first = 0;
};

// `type` is that of the whole value. nullopt: it cannot be done (a dim is not cut evenly, or `to`
// is partial where `from` is not).
//
// A step may only touch the innermost axis of those that cut a dim: the parts of the others would
// not lie in order. The least total time over the graph of shardings, by Dijkstra's algorithm;
// among equals the one found first, so the answer is the same everywhere.
std::optional<ReshardPlan> PlanReshard(const TensorType& type, const Sharding& from,
                                       const Sharding& to, const Mesh& mesh,
                                       const ReshardLinks& links = {});

}  // namespace millrace

#endif  // MILLRACE_PASSES_PARALLEL_RESHARD_H_
