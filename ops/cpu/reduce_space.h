// The index space of a reduction with as few dims as it can be walked in: dims of size 1 are
// dropped, and neighbours that are both kept or both reduced merge, so kept and reduced dims
// alternate.
#ifndef MILLRACE_OPS_CPU_REDUCE_SPACE_H_
#define MILLRACE_OPS_CPU_REDUCE_SPACE_H_

#include <cstdint>
#include <optional>
#include <span>

#include "graph/types.h"

namespace millrace {

struct ReduceDim {
  int64_t size = 1;
  int64_t in_stride = 0;
  int64_t out_stride = 0;  // 0: reduced
  bool kept = false;
};

struct ReduceSpace {
  uint32_t axes = 0;  // bit d: dim d of the operand is reduced
  int rank = 0;       // at least 1
  ReduceDim dims[kMaxRank];
  int64_t out_count = 1;
  int64_t row_count = 1;  // elements that go into one of the result
};

ReduceSpace MakeReduceSpace(const Shape& shape, uint32_t axes);

uint32_t AllAxes(const Shape& shape);
// Bit set of `axes`; nullopt when one is out of range.
std::optional<uint32_t> AxisSet(std::span<const int64_t> axes, const Shape& shape);
// The operand's shape without the reduced dims, or with 1 in their place.
Shape ReducedShape(const Shape& shape, uint32_t axes, bool keep_dims);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_REDUCE_SPACE_H_
