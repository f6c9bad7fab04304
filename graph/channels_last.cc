#include "graph/channels_last.h"

namespace millrace {

bool HasChannelsLast(const Shape& shape) {
  if (shape.rank() != 4 && shape.rank() != 5) return false;
  if (NumElements(shape) == 0 || shape[1] == 1) return false;
  for (int d = 2; d < shape.rank(); ++d) {
    if (shape[d] != 1) return true;
  }
  return false;
}

std::vector<int64_t> ChannelsLastStrides(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  int64_t stride = shape[1];
  for (int d = shape.rank() - 1; d >= 2; --d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  strides[0] = stride;
  return strides;
}

Shape ChannelsLastShape(const Shape& shape) {
  Shape lying{shape[0]};
  for (int d = 2; d < shape.rank(); ++d) lying.push_back(shape[d]);
  lying.push_back(shape[1]);
  return lying;
}

}  // namespace millrace
