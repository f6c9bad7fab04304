#include "ops/window.h"

#include "graph/strings.h"

namespace millrace {
namespace {

// Larger kernels, strides, dilations and pads than this are refused; sums and products of such
// numbers with dims cannot overflow.
constexpr int64_t kMaxNumber = int64_t{1} << 31;

// An attribute with one number per spatial dim, in [min, 2^31]; `otherwise` where it is absent.
absl::StatusOr<std::vector<int64_t>> Numbers(const Attrs& attrs, std::string_view name, size_t size,
                                             int64_t min, int64_t otherwise) {
  if (attrs.Find(name) == nullptr) return std::vector<int64_t>(size, otherwise);
  const std::vector<int64_t> values = attrs.Ints(name);
  if (values.size() != size) {
    return BadInputError(
        StrCat("'", name, "' has ", values.size(), " entries, expected are ", size));
  }
  for (int64_t v : values) {
    if (v < min || v > kMaxNumber) {
      return BadInputError(
          StrCat("'", name, "' has an entry of ", v, ", allowed are ", min, " to 2^31"));
    }
  }
  return values;
}

// Padding such that the result has ceil(in / stride) places.
void PadToSame(Window& w, int d, int64_t extent, bool upper) {
  const int64_t places = (w.in[d] + w.strides[d] - 1) / w.strides[d];
  const int64_t total = std::max<int64_t>(0, (places - 1) * w.strides[d] + extent - w.in[d]);
  w.pads_begin[d] = upper ? total / 2 : total - total / 2;
  w.pads_end[d] = total - w.pads_begin[d];
}

// How often the window fits along dim d; `extent` is the span of its taps.
absl::StatusOr<int64_t> WindowCount(const Window& w, int d, int64_t extent, bool ceil) {
  const int64_t padded = w.in[d] + w.pads_begin[d] + w.pads_end[d];
  if (padded < extent) {
    return BadInputError(StrCat("a window of ", extent, " does not fit in spatial dim ",
                                d - (kMaxSpatial - w.rank), " of ", w.in[d], ", padded to ",
                                padded));
  }
  const int64_t free = padded - extent, stride = w.strides[d];
  int64_t places = free / stride + 1;
  // A last, partial window must still start inside the input or the padding before it.
  if (ceil && free % stride != 0 && places * stride < w.in[d] + w.pads_begin[d]) ++places;
  return places;
}

// What all windows read alike: numbers of dims, kernel, strides, dilations and pads as given.
absl::StatusOr<Window> ReadWindow(const Attrs& attrs, std::span<const int64_t> in,
                                  std::span<const int64_t> kernel) {
  const size_t rank = in.size();
  MILLRACE_CHECK(rank >= 1 && rank <= kMaxSpatial);
  if (kernel.size() != rank) {
    return BadInputError(
        StrCat("the kernel has ", kernel.size(), " spatial dims, the input has ", rank));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto strides, Numbers(attrs, "strides", rank, 1, 1));
  MILLRACE_ASSIGN_OR_RETURN(const auto dilations, Numbers(attrs, "dilations", rank, 1, 1));
  MILLRACE_ASSIGN_OR_RETURN(const auto pads, Numbers(attrs, "pads", 2 * rank, 0, 0));
  const std::string auto_pad = attrs.String("auto_pad", "NOTSET");
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  if (auto_pad != "NOTSET" && padded) {
    return BadInputError(StrCat("'pads' and auto_pad=", auto_pad, " exclude each other"));
  }

  Window w;
  w.rank = static_cast<int>(rank);
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = i + kMaxSpatial - rank;
    if (kernel[i] < 1 || kernel[i] > kMaxNumber) {
      return BadInputError(StrCat("the kernel has a spatial dim of ", kernel[i]));
    }
    w.in[d] = in[i];
    w.kernel[d] = kernel[i];
    w.strides[d] = strides[i];
    w.dilations[d] = dilations[i];
    w.pads_begin[d] = pads[i];
    w.pads_end[d] = pads[i + rank];
  }
  return w;
}

int64_t Extent(const Window& w, int d) { return (w.kernel[d] - 1) * w.dilations[d] + 1; }

// The size of dim d of a transposed window's result, given or made from pads; `asked` is
// output_shape's entry, -1 where there is none.
absl::StatusOr<int64_t> TransposedSize(Window& w, int d, std::string_view auto_pad, int64_t asked,
                                       int64_t output_padding) {
  const int spatial = d - (kMaxSpatial - w.rank);
  const int64_t places = w.out[d], limit = std::max(w.strides[d], w.dilations[d]);
  if (output_padding >= limit) {
    return BadInputError(StrCat("'output_padding' of spatial dim ", spatial, " is ", output_padding,
                                ", but must be less than its stride or dilation, ", limit));
  }
  if (places < 1 || places > kMaxBytes / w.strides[d]) {
    return BadInputError(StrCat("spatial dim ", spatial, " of the input is ", places));
  }
  const int64_t whole = (places - 1) * w.strides[d] + output_padding + Extent(w, d);
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (asked < 0 && !same) {
    const int64_t size = whole - w.pads_begin[d] - w.pads_end[d];
    if (size >= 0) return size;
    return BadInputError(StrCat("spatial dim ", spatial, " of the result would be ", size));
  }
  const int64_t size = asked >= 0 ? asked : places * w.strides[d];
  const int64_t total = std::max<int64_t>(0, whole - size);
  w.pads_begin[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
  return size;
}

}  // namespace

absl::StatusOr<Window> MakeWindow(const Attrs& attrs, std::span<const int64_t> in,
                                  std::span<const int64_t> kernel) {
  MILLRACE_ASSIGN_OR_RETURN(Window w, ReadWindow(attrs, in, kernel));
  const std::string auto_pad = attrs.String("auto_pad", "NOTSET");
  for (int d = kMaxSpatial - w.rank; d < kMaxSpatial; ++d) {
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      PadToSame(w, d, Extent(w, d), auto_pad == "SAME_UPPER");
    }
    MILLRACE_ASSIGN_OR_RETURN(w.out[d],
                              WindowCount(w, d, Extent(w, d), attrs.Bool("ceil_mode", false)));
  }
  return w;
}

absl::StatusOr<Window> MakeTransposedWindow(const Attrs& attrs, std::span<const int64_t> in,
                                            std::span<const int64_t> kernel) {
  MILLRACE_ASSIGN_OR_RETURN(Window w, ReadWindow(attrs, in, kernel));
  MILLRACE_ASSIGN_OR_RETURN(const auto added, Numbers(attrs, "output_padding", in.size(), 0, 0));
  std::vector<int64_t> asked(in.size(), -1);
  if (attrs.Find("output_shape") != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(asked, Numbers(attrs, "output_shape", in.size(), 0, 0));
  }
  w.out = w.in;
  for (int d = kMaxSpatial - w.rank; d < kMaxSpatial; ++d) {
    const size_t i = static_cast<size_t>(d + w.rank - kMaxSpatial);
    MILLRACE_ASSIGN_OR_RETURN(
        w.in[d], TransposedSize(w, d, attrs.String("auto_pad", "NOTSET"), asked[i], added[i]));
    w.pads_end[d] = std::max<int64_t>(0, Reach(w, d) - w.in[d]);
  }
  return w;
}

std::vector<int64_t> Dims(const Window& window, const Spatial& values) {
  return {values.end() - window.rank, values.end()};
}

int64_t Volume(const Spatial& values) { return values[0] * values[1] * values[2]; }

Shape WithSpatial(int64_t first, int64_t second, std::span<const int64_t> spatial) {
  Shape shape{first, second};
  for (int64_t d : spatial) shape.push_back(d);
  return shape;
}

std::vector<AttrSpec> WindowAttrs() {
  return {{.name = "auto_pad",
           .kind = AttrKind::kString,
           .default_value = "NOTSET",
           .choices = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"},
           .doc = "SAME: ceil(size / stride) places, odd padding at the end or the beginning"},
          {.name = "dilations", .kind = AttrKind::kInts, .doc = "per spatial dim; absent: 1"},
          {.name = "pads",
           .kind = AttrKind::kInts,
           .doc = "before each spatial dim, then after each; absent: 0"},
          {.name = "strides", .kind = AttrKind::kInts, .doc = "per spatial dim; absent: 1"}};
}

}  // namespace millrace
