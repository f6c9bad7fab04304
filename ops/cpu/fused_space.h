// The index space of a fused program as kernels walk it.
#ifndef MILLRACE_OPS_CPU_FUSED_SPACE_H_
#define MILLRACE_OPS_CPU_FUSED_SPACE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/fused_program.h"

namespace millrace {

// The index space with as few dims as it can be walked in: dims of size 1 are dropped, neighbours
// that no operand can tell apart merge.
struct FusedSpace {
  enum class Kind : uint8_t {
    kMap,      // nothing is reduced; blocks run over all points in order
    kRows,     // [outer..., reduce]: blocks run along rows
    kColumns,  // [outer..., reduce, inner]: blocks run along the inner dim
  };
  Kind kind = Kind::kMap;
  std::vector<int64_t> sizes;                                         // kMap: at least one
  std::vector<std::vector<int64_t>> operand_strides, output_strides;  // elements, a stride per dim

  int64_t Points() const;
  // kRows: the last dim; kColumns: the one before it.
  size_t ReduceDim() const { return sizes.size() - (kind == Kind::kRows ? 1 : 2); }
};

// Nothing for spaces that have another form, or no points.
std::optional<FusedSpace> MakeFusedSpace(const FusedProgram& program);

}  // namespace millrace

#endif  // MILLRACE_OPS_CPU_FUSED_SPACE_H_
