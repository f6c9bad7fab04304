// Ops that pick positions of their operand along each dim on its own (Slice, Tile, Expand, Pad):
// element [i, j, ...] of the result is element [map_0[i], map_1[j], ...] of the operand.
#ifndef MILLRACE_OPS_DIM_MAPS_H_
#define MILLRACE_OPS_DIM_MAPS_H_

#include <optional>
#include <vector>

#include "ops/gradient.h"
#include "ops/op_def.h"

namespace millrace {

inline constexpr int64_t kFill = -1;

// Positions start, start + step, ... of the operand; with start kFill, none: something else goes
// there.
struct DimRun {
  int64_t start = 0, step = 1, count = 0;
  bool operator==(const DimRun&) const = default;
};

// The positions along one dim, for those of the result in order: all runs, `times` times.
struct DimMap {
  std::vector<DimRun> runs;
  int64_t times = 1;
};

// Adds one position, or kFill, to the last run where it goes on so.
void AppendPosition(DimMap& map, int64_t position);
int64_t CountOf(const DimMap& map);
// Every position of a dim of `size`, in order.
bool IsWhole(const DimMap& map, int64_t size);

// Any element type; `fill`, one element, goes where a map says kFill. Maps fit the shapes.
void CopyByMaps(const Tensor& from, std::span<const DimMap> maps, const std::byte* fill,
                Tensor& to);

// The gradient of picking `map` along `axis` of an operand with `size` there: dy added up at the
// positions it was picked from. No kFill.
Term SumAtPositions(const Term& dy, const DimMap& map, int axis, int64_t size);

// The maps of a query of one of these ops, per dim; nullopt where the query leaves them open, makes
// no sense, or would take more than 2^20 runs.
std::optional<std::vector<DimMap>> SliceMaps(const NodeQuery& query);
std::optional<std::vector<DimMap>> TileMaps(const NodeQuery& query);
std::optional<std::vector<DimMap>> PadMaps(const NodeQuery& query);

// Work of ops that read only what their result holds.
Work MovingWork(const NodeQuery& query);

// Rules of ops on whole tensors of one operand, further operands being small and replicated: a cut
// of each dim d with keeps[d] is the same cut of the result; and all partial values pass through.
std::vector<ShardingRule> KeptDimRules(const NodeQuery& query, const std::vector<bool>& keeps);

}  // namespace millrace

#endif  // MILLRACE_OPS_DIM_MAPS_H_
