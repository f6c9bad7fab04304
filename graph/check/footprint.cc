// From dims and strides to runs. Dims of size 1 do not matter. The others, sorted by stride, are
// the order of elements in memory; strides must nest (each at least as long as all that lies within
// it), or elements could coincide. From the inside out, dims that continue one another without a
// gap melt into the run; the rest are loops over runs, again melted where they continue one
// another.
#include "graph/check/footprint.h"

#include <algorithm>

#include "graph/strings.h"

namespace millrace {
namespace {

// Images other than row-major. Permutations of up to 8 dims take 24 bits.
constexpr int32_t kPermutedImages = 1 << 28;
constexpr int32_t kBlocked8Image = 1;
constexpr int32_t kBlocked16Image = 2;

struct StridedDim {
  int dim = 0;
  int64_t size = 1;
  int64_t stride = 1;
};

int32_t ImageOf(const std::vector<StridedDim>& dims) {
  int32_t code = 0;
  bool row_major = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    code = (code << 3) | dims[i].dim;
    row_major &= i == 0 || dims[i - 1].dim < dims[i].dim;
  }
  return row_major ? kRowMajorImage : kPermutedImages | code;
}

std::string StridedFootprint(const Shape& shape, const std::vector<int64_t>& strides,
                             Footprint& f) {
  if (CheckedNumElements(shape) == 0) return "";
  std::vector<StridedDim> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] > 1) dims.push_back({i, shape[i], strides[i]});
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const auto& a, const auto& b) { return a.stride > b.stride; });
  int64_t extent = 1;  // elements from the first to one past the last of the inner dims
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].stride < extent) {
      return StrCat("strides make elements of dim ", dims[i].dim, " overlap or interleave");
    }
    int64_t reach;
    if (__builtin_mul_overflow(dims[i].size - 1, dims[i].stride, &reach) ||
        __builtin_add_overflow(reach, extent, &extent) || extent > kMaxBytes) {
      return "strides reach too far";
    }
  }
  f.span_bytes = extent * f.element_bytes;
  f.image = ImageOf(dims);

  int64_t run = 1;
  while (!dims.empty() && dims.back().stride == run) {
    run *= dims.back().size;
    dims.pop_back();
  }
  f.run_bytes = run * f.element_bytes;
  f.num_runs = 1;
  for (const StridedDim& d : dims) {
    if (f.num_runs > kMaxRuns / d.size) {
      return StrCat("it lies in more than ", kMaxRuns, " separate runs of bytes");
    }
    f.num_runs *= d.size;
    const int64_t step = d.stride * f.element_bytes;
    if (!f.loops.empty() && f.loops.back().step_bytes == step * d.size) {
      f.loops.back() = {f.loops.back().count * d.size, step};
    } else {
      f.loops.push_back({d.size, step});
    }
  }
  return "";
}

void OneRun(int64_t size_bytes, int32_t image, Footprint& f) {
  f.span_bytes = f.run_bytes = size_bytes;
  f.num_runs = size_bytes > 0 ? 1 : 0;
  f.image = image;
}

std::string ChannelsLastFootprint(const Shape& shape, Footprint& f) {
  if (shape.rank() != 4 && shape.rank() != 5) return "layout nhwc needs rank 4 or 5";
  std::vector<int64_t> strides(shape.rank());
  int64_t stride = 1;
  strides[1] = stride;
  stride *= shape[1];
  for (int i = shape.rank() - 1; i >= 2; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  strides[0] = stride;
  return StridedFootprint(shape, strides, f);
}

std::string BlockedFootprint(const Shape& shape, int64_t block, int32_t image, Footprint& f) {
  if (shape.rank() != 4 && shape.rank() != 5) return "blocked layouts need rank 4 or 5";
  Shape padded = shape;
  padded[1] = (shape[1] + block - 1) / block * block;
  const std::optional<int64_t> elements = CheckedNumElements(padded);
  if (!elements.has_value() || *elements > kMaxBytes / f.element_bytes) return "it is too large";
  OneRun(*elements * f.element_bytes, image, f);
  return "";
}

}  // namespace

std::string MakeFootprint(const Slice& slice, const Value* value, Footprint& f) {
  f = Footprint();
  if (slice.size_bytes < 0 || slice.size_bytes > kMaxBytes) {
    return StrCat("its size of ", slice.size_bytes, " bytes is not possible");
  }
  if (slice.layout != Layout::kStrided && !slice.strides.empty()) {
    return StrCat("layout ", LayoutName(slice.layout), " has no strides");
  }
  if (value == nullptr) {
    if (slice.layout != Layout::kStrided || !slice.strides.empty()) {
      return "scratch memory has neither layout nor strides";
    }
    OneRun(slice.size_bytes, kRowMajorImage, f);
    return "";
  }
  const Shape& shape = value->type.shape;
  f.element_bytes = SizeOf(value->type.dtype);
  if (value->bounded && (slice.layout != Layout::kStrided || !slice.strides.empty())) {
    return "a value whose size is known only at run time lies dense";
  }
  std::string problem;
  switch (slice.layout) {
    case Layout::kStrided:
      if (slice.strides.empty()) {
        OneRun(ByteSize(value->type), kRowMajorImage, f);
      } else if (static_cast<int>(slice.strides.size()) != shape.rank()) {
        problem = StrCat("it has ", slice.strides.size(), " strides for rank ", shape.rank());
      } else if (*std::min_element(slice.strides.begin(), slice.strides.end()) < 0) {
        problem = "a stride is negative";
      } else {
        problem = StridedFootprint(shape, slice.strides, f);
      }
      break;
    case Layout::kNHWC:
      problem = ChannelsLastFootprint(shape, f);
      break;
    case Layout::kNChw8c:
      problem = BlockedFootprint(shape, 8, kBlocked8Image, f);
      break;
    case Layout::kNChw16c:
      problem = BlockedFootprint(shape, 16, kBlocked16Image, f);
      break;
    case Layout::kPacked:
      OneRun(slice.size_bytes, kRowMajorImage, f);
      f.packed = true;
      break;
  }
  if (problem.empty() && slice.size_bytes < f.span_bytes) {
    problem = StrCat("its ", slice.size_bytes, " bytes are too few: ", ToString(value->type),
                     " takes ", f.span_bytes);
  }
  return problem;
}

void RunCursor::Advance() {
  image_offset_ += footprint_.run_bytes;
  for (int i = static_cast<int>(footprint_.loops.size()) - 1; i >= 0; --i) {
    const Footprint::Loop& loop = footprint_.loops[i];
    begin_ += loop.step_bytes;
    if (++index_[i] < loop.count) return;
    index_[i] = 0;
    begin_ -= loop.count * loop.step_bytes;
  }
  done_ = true;
}

bool Overlap(const Footprint& a, int64_t a_begin, const Footprint& b, int64_t b_begin) {
  if (a.span_bytes == 0 || b.span_bytes == 0) return false;
  if (a_begin + a.span_bytes <= b_begin || b_begin + b.span_bytes <= a_begin) return false;
  if (a.contiguous() && b.contiguous()) return true;
  RunCursor i(a, a_begin), j(b, b_begin);
  while (!i.done() && !j.done()) {
    if (i.end() <= j.begin()) {
      i.Advance();
    } else if (j.end() <= i.begin()) {
      j.Advance();
    } else {
      return true;
    }
  }
  return false;
}

bool SamePlaces(const Footprint& a, const Footprint& b) {
  if (a.image != b.image || a.packed != b.packed || a.span_bytes != b.span_bytes ||
      a.run_bytes != b.run_bytes || a.num_runs != b.num_runs || a.loops.size() != b.loops.size()) {
    return false;
  }
  for (size_t i = 0; i < a.loops.size(); ++i) {
    if (a.loops[i].count != b.loops[i].count || a.loops[i].step_bytes != b.loops[i].step_bytes) {
      return false;
    }
  }
  return true;
}

}  // namespace millrace
