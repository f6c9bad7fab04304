#include "ops/pool.h"

#include "graph/strings.h"
#include "ops/sharding.h"

namespace millrace {

absl::StatusOr<Window> PoolWindow(const Attrs& attrs, const Shape& x) {
  if (x.rank() < 3 || x.rank() > 2 + kMaxSpatial) {
    return BadInputError(
        StrCat("X must have 1 to 3 spatial dims, that is rank 3 to 5, but has rank ", x.rank()));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Window w,
                            MakeWindow(attrs, x.dims().subspan(2), attrs.Ints("kernel_shape")));
  for (int d = 0; d < kMaxSpatial; ++d) {
    const int64_t extent = (w.kernel[d] - 1) * w.dilations[d] + 1;
    if (w.pads_begin[d] >= extent || w.pads_end[d] >= extent) {
      return BadInputError("a pad is as large as the window, which would then hold padding only");
    }
  }
  return w;
}

Shape PoolResultShape(const Shape& x, const Window& w) {
  return WithSpatial(x[0], x[1], Dims(w, w.out));
}

std::vector<AttrSpec> PoolAttrs() {
  std::vector<AttrSpec> attrs = WindowAttrs();
  attrs.push_back({.name = "kernel_shape", .kind = AttrKind::kInts, .required = true});
  attrs.push_back({.name = "ceil_mode",
                   .kind = AttrKind::kBool,
                   .default_value = false,
                   .doc = "a last window that hangs over the end counts"});
  return attrs;
}

AttrSpec InputShapeAttr() {
  return {.name = "input_shape",
          .kind = AttrKind::kInts,
          .required = true,
          .doc = "the spatial dims of X"};
}

std::array<std::vector<int64_t>, kMaxSpatial> TapCounts(const Window& w, bool with_padding) {
  std::array<std::vector<int64_t>, kMaxSpatial> counts;
  for (int d = 0; d < kMaxSpatial; ++d) {
    const int64_t low = with_padding ? -w.pads_begin[d] : 0;
    const int64_t high = with_padding ? w.in[d] + w.pads_end[d] : w.in[d];
    for (int64_t o = 0; o < w.out[d]; ++o) {
      counts[d].push_back(TapsWithin(w, d, o, low, high).count());
    }
  }
  return counts;
}

std::vector<ShardingRule> PoolRules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.inputs[0]->shape;
  for (int d = 0; d < 2; ++d) {
    if (!Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, d == 0 ? "split the batch" : "split channels");
    for (AxisSharding& input : rule.inputs) input = ShardDim(d);
    for (AxisSharding& output : rule.outputs) output = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  return rules;
}

Work PoolWork(const NodeQuery& query, const Shape& pooled) {
  Work work = DefaultWork(query);
  work.flops = static_cast<double>(NumElements(pooled));
  for (int64_t k : query.attrs.Ints("kernel_shape")) work.flops *= static_cast<double>(k);
  return work;
}

}  // namespace millrace
