// What the pools share: a window over the spatial dims of [N,C,spatial...] that gives one element a
// channel for each of its places.
#ifndef MILLRACE_OPS_POOL_H_
#define MILLRACE_OPS_POOL_H_

#include <array>
#include <vector>

#include "ops/op_def.h"
#include "ops/window.h"

namespace millrace {

// BadInputError also where a window could hold padding only: a pad as large as the window.
absl::StatusOr<Window> PoolWindow(const Attrs& attrs, const Shape& x);
Shape PoolResultShape(const Shape& x, const Window& w);

// Attribute specs: the window's, kernel_shape and ceil_mode.
std::vector<AttrSpec> PoolAttrs();
AttrSpec InputShapeAttr();  // of gradients that are not told X

// How many taps count at each place along each dim; at a place of the window it is their product.
// With padding, taps in it count as well; taps beyond it (ceil_mode) never do.
std::array<std::vector<int64_t>, kMaxSpatial> TapCounts(const Window& w, bool with_padding);

// Batch and channels of all operands can be cut.
std::vector<ShardingRule> PoolRules(const NodeQuery& query);

// One step per tap of each element of `pooled`.
Work PoolWork(const NodeQuery& query, const Shape& pooled);

}  // namespace millrace

#endif  // MILLRACE_OPS_POOL_H_
