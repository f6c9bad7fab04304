#include "ops/dim_maps.h"

#include <cstring>

#include "graph/strings.h"
#include "ops/index_walk.h"
#include "ops/sharding.h"

namespace millrace {

void AppendPosition(DimMap& map, int64_t position) {
  if (!map.runs.empty()) {
    DimRun& last = map.runs.back();
    const bool fills = last.start == kFill, fill = position == kFill;
    if (fills && fill) {
      ++last.count;
      return;
    }
    if (!fills && !fill && last.count == 1) last.step = position - last.start;
    if (!fills && !fill && position == last.start + last.count * last.step) {
      ++last.count;
      return;
    }
  }
  map.runs.push_back({position, 1, 1});
}

int64_t CountOf(const DimMap& map) {
  int64_t count = 0;
  for (const DimRun& run : map.runs) count += run.count;
  return count * map.times;
}

bool IsWhole(const DimMap& map, int64_t size) {
  if (map.times != 1 || map.runs.size() != 1) return false;
  const DimRun& run = map.runs[0];
  return run.start == 0 && run.count == size && (run.step == 1 || size == 1);
}

namespace {

// Writes dims d.. of the result for one position in the dims before; `from` is nullptr inside a
// filled position.
struct MapCopy {
  std::span<const DimMap> maps;
  Shape strides;  // of the operand, in bytes
  const std::byte* fill;
  int64_t size;  // of an element
  std::byte* to;

  void Write(int d, const std::byte* from) {
    if (d == static_cast<int>(maps.size())) {
      std::memcpy(to, from != nullptr ? from : fill, size);
      to += size;
      return;
    }
    for (int64_t time = 0; time < maps[d].times; ++time) {
      for (const DimRun& run : maps[d].runs) {
        const bool filled = from == nullptr || run.start == kFill;
        for (int64_t i = 0; i < run.count; ++i) {
          Write(d + 1, filled ? nullptr : from + (run.start + i * run.step) * strides[d]);
        }
      }
    }
  }
};

}  // namespace

void CopyByMaps(const Tensor& from, std::span<const DimMap> maps, const std::byte* fill,
                Tensor& to) {
  if (to.num_elements() == 0) return;
  MapCopy copy{maps, DenseStrides(from.shape()), fill, SizeOf(to.dtype()), to.mutable_bytes()};
  for (int d = 0; d < copy.strides.rank(); ++d) copy.strides[d] *= copy.size;
  copy.Write(0, from.bytes());
}

Term SumAtPositions(const Term& dy, const DimMap& map, int axis, int64_t size) {
  MILLRACE_CHECK(map.times == 1);
  std::vector<int64_t> positions;
  for (const DimRun& run : map.runs) {
    for (int64_t i = 0; i < run.count; ++i) positions.push_back(run.start + i * run.step);
  }
  Attrs attrs = AxisAttr(axis);
  attrs.Set("size", size);
  return Apply("grad.Gather", {dy, Ints(*dy.builder, positions)}, std::move(attrs));
}

Work MovingWork(const NodeQuery& query) {
  return {.flops = 0, .bytes = 2 * static_cast<double>(ByteSize(*query.outputs[0]))};
}

std::vector<ShardingRule> KeptDimRules(const NodeQuery& query, const std::vector<bool>& keeps) {
  std::vector<ShardingRule> rules;
  const Shape& shape = query.outputs[0]->shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!keeps[d] || !Divisible(shape, d)) continue;
    ShardingRule rule = ReplicateAll(query, StrCat("split dim ", d));
    rule.inputs[0] = ShardDim(d);
    for (AxisSharding& output : rule.outputs) output = ShardDim(d);
    rules.push_back(std::move(rule));
  }
  AddPartialRules(query, 0, kAllReductions, rules);
  return rules;
}

}  // namespace millrace
