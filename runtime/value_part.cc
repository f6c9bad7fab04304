#include "runtime/value_part.h"

namespace millrace {

ValuePart PartOf(const Graph& graph, ValueId id, std::span<const int64_t> coordinate) {
  const TensorType whole = GlobalType(graph, id);
  const TensorType& part = graph.value(id).type;
  if (whole == part) return {};
  const Sharding& sharding = graph.shardings.at(id);
  std::vector<int64_t> place(part.shape.rank(), 0);  // of the part among those along each dim
  for (size_t axis = 0; axis < sharding.axes.size(); ++axis) {
    const AxisSharding& along = sharding.axes[axis];
    if (along.kind != AxisSharding::Kind::kShard) continue;
    place[along.dim] = place[along.dim] * graph.mesh.axes[axis].size + coordinate[axis];
  }
  ValuePart result;
  result.strides.resize(part.shape.rank());
  int64_t stride = 1, offset = 0;
  for (int d = part.shape.rank() - 1; d >= 0; --d) {
    result.strides[d] = stride;
    offset += place[d] * part.shape[d] * stride;
    stride *= whole.shape[d];
  }
  result.offset_bytes = offset * SizeOf(whole.dtype);
  return result;
}

}  // namespace millrace
