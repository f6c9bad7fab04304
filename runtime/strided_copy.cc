#include "runtime/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace millrace {
namespace {

struct Dim {
  int64_t size, to, from;  // steps in bytes
};

// Dims of size other than 1, outermost first, evenly stepped neighbours merged. The order is by the
// destination's steps: a copy may visit elements in any order, and this one writes forwards.
std::vector<Dim> MergedDims(const TensorType& type, const StridedPlace& to,
                            const StridedPlace& from) {
  const Shape dense = DenseStrides(type.shape);
  const int64_t element = SizeOf(type.dtype);
  std::vector<Dim> dims;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (type.shape[i] == 1) continue;
    dims.push_back({type.shape[i], element * (to.strides.empty() ? dense[i] : to.strides[i]),
                    element * (from.strides.empty() ? dense[i] : from.strides[i])});
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& a, const Dim& b) { return a.to > b.to; });
  std::vector<Dim> merged;
  for (const Dim& inner : dims) {
    if (!merged.empty() && merged.back().to == inner.size * inner.to &&
        merged.back().from == inner.size * inner.from) {
      merged.back() = {merged.back().size * inner.size, inner.to, inner.from};
    } else {
      merged.push_back(inner);
    }
  }
  return merged;
}

}  // namespace

StridedCopy PlanStridedCopy(const TensorType& type, const StridedPlace& to,
                            const StridedPlace& from) {
  StridedCopy copy;
  copy.region = {.to = to.data, .from = from.data, .to_space = to.space, .from_space = from.space};
  copy.empty = NumElements(type.shape) == 0;
  if (copy.empty) return copy;

  std::vector<Dim> dims = MergedDims(type, to, from);
  copy.region.row_bytes = SizeOf(type.dtype);
  if (!dims.empty() && dims.back().to == copy.region.row_bytes &&
      dims.back().from == copy.region.row_bytes) {
    copy.region.row_bytes *= dims.back().size;
    dims.pop_back();
  }
  if (dims.empty()) return copy;
  const auto rows = std::max_element(dims.begin(), dims.end(),
                                     [](const Dim& a, const Dim& b) { return a.size < b.size; });
  copy.region.rows = rows->size;
  copy.region.to_pitch_bytes = rows->to;
  copy.region.from_pitch_bytes = rows->from;
  dims.erase(rows);
  for (const Dim& dim : dims) copy.loops[copy.num_loops++] = {dim.size, dim.to, dim.from};
  return copy;
}

void CopyOnHost(const CopyRegion& region) {
  std::byte* to = region.to;
  const std::byte* from = region.from;
  for (int64_t row = 0; row < region.rows; ++row) {
    std::memcpy(to, from, static_cast<size_t>(region.row_bytes));
    to += region.to_pitch_bytes;
    from += region.from_pitch_bytes;
  }
}

}  // namespace millrace
