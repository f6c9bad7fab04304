#include "runtime/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace millrace {
namespace {

struct Dim {
  int64_t size, to, from;  // steps in bytes
};

// No more than a shape has; no allocation, since sessions plan copies while they run.
class DimList {
 public:
  Dim* begin() { return dims_.data(); }
  Dim* end() { return dims_.data() + size_; }
  bool empty() const { return size_ == 0; }
  Dim& back() { return dims_[size_ - 1]; }
  void push_back(const Dim& dim) { dims_[size_++] = dim; }
  void pop_back() { --size_; }
  void erase(Dim* dim) {
    std::copy(dim + 1, end(), dim);
    --size_;
  }
  // Before the first one with a smaller step, so equal ones keep their order.
  void InsertByStep(const Dim& dim) {
    push_back(dim);
    for (Dim* d = end() - 1; d != begin() && d[-1].to < d->to; --d) std::swap(d[-1], *d);
  }

 private:
  std::array<Dim, kMaxRank> dims_;
  int size_ = 0;
};

// Dims of size other than 1, outermost first, evenly stepped neighbours merged. The order is by the
// destination's steps: a copy may visit elements in any order, and this one writes forwards.
DimList MergedDims(const TensorType& type, const StridedPlace& to, const StridedPlace& from) {
  const Shape dense = DenseStrides(type.shape);
  const int64_t element = SizeOf(type.dtype);
  DimList dims;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (type.shape[i] == 1) continue;
    dims.InsertByStep({type.shape[i], element * (to.strides.empty() ? dense[i] : to.strides[i]),
                       element * (from.strides.empty() ? dense[i] : from.strides[i])});
  }
  DimList merged;
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

  DimList dims = MergedDims(type, to, from);
  copy.region.row_bytes = SizeOf(type.dtype);
  if (!dims.empty() && dims.back().to == copy.region.row_bytes &&
      dims.back().from == copy.region.row_bytes) {
    copy.region.row_bytes *= dims.back().size;
    dims.pop_back();
  }
  if (dims.empty()) return copy;
  Dim* const rows = std::max_element(dims.begin(), dims.end(),
                                     [](const Dim& a, const Dim& b) { return a.size < b.size; });
  copy.region.rows = rows->size;
  copy.region.to_pitch_bytes = rows->to;
  copy.region.from_pitch_bytes = rows->from;
  dims.erase(rows);
  for (const Dim& dim : dims) copy.loops[copy.num_loops++] = {dim.size, dim.to, dim.from};
  return copy;
}

namespace {

// Rows of one element, as when channels and positions change places.
template <int kBytes>
void CopyElements(const CopyRegion& region) {
  std::byte* to = region.to;
  const std::byte* from = region.from;
  for (int64_t row = 0; row < region.rows; ++row) {
    std::memcpy(to, from, kBytes);
    to += region.to_pitch_bytes;
    from += region.from_pitch_bytes;
  }
}

}  // namespace

void CopyOnHost(const CopyRegion& region) {
  if (region.row_bytes == 4) return CopyElements<4>(region);
  if (region.row_bytes == 2) return CopyElements<2>(region);
  std::byte* to = region.to;
  const std::byte* from = region.from;
  for (int64_t row = 0; row < region.rows; ++row) {
    std::memcpy(to, from, static_cast<size_t>(region.row_bytes));
    to += region.to_pitch_bytes;
    from += region.from_pitch_bytes;
  }
}

}  // namespace millrace
