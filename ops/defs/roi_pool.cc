// Pooling over regions of interest of [N,C,H,W] images: RoiAlign samples between elements,
// MaxRoiPool takes whole ones. Where regions lie is data: regions that are not finite, or so large
// that a bin would have more samples than the image has elements, are errors.
#include <cmath>

#include "graph/strings.h"
#include "ops/dtypes.h"
#include "ops/interpolation.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"

namespace millrace {
namespace {

absl::Status CheckImages(const Shape& x, const Shape& rois, int64_t columns) {
  if (x.rank() != 4) return BadInputError(StrCat("X must be [N,C,H,W], but is ", ToString(x)));
  if (rois.rank() == 2 && rois[1] == columns) return absl::OkStatus();
  return BadInputError(StrCat("rois must have ", columns, " columns, but is ", ToString(rois)));
}

absl::StatusOr<Shape> PooledShape(const Shape& x, int64_t rois, int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > kMaxBytes || width > kMaxBytes) {
    return BadInputError(StrCat("a region cannot become ", height, " by ", width));
  }
  return Shape{rois, x[1], height, width};
}

absl::StatusOr<int64_t> BatchOf(int64_t index, const Shape& x, int64_t roi) {
  if (index >= 0 && index < x[0]) return index;
  return BadInputError(
      StrCat("region ", roi, " is in image ", index, ", out of range [0,", x[0], ")"));
}

// --- RoiAlign ----------------------------------------------------------------------------------

absl::Status InferAlign(InferContext& c) {
  const Shape &x = c.input(0).shape, &rois = c.input(1).shape;
  MILLRACE_RETURN_IF_ERROR(CheckImages(x, rois, 4));
  if (c.input(2).shape != Shape{rois[0]}) {
    return BadInputError(
        StrCat("batch_indices must have one entry for each of ", rois[0], " rois"));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const Shape shape,
      PooledShape(x, rois[0], c.attrs().Int("output_height", 1), c.attrs().Int("output_width", 1)));
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// Samples along one axis of a region: `count` in each bin.
struct BinAxis {
  double begin = 0, bin = 0;
  int64_t count = 1;

  double At(int64_t place, int64_t sample) const {
    return begin + bin * (static_cast<double>(place) +
                          (static_cast<double>(sample) + 0.5) / static_cast<double>(count));
  }
};

absl::StatusOr<BinAxis> BinsOf(const Attrs& attrs, double begin, double end, int64_t bins,
                               int64_t size) {
  const bool half_pixel =
      attrs.String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double scale = attrs.Float("spatial_scale", 1), offset = half_pixel ? 0.5 : 0;
  BinAxis axis;
  axis.begin = begin * scale - offset;
  double extent = (end * scale - offset) - axis.begin;
  if (!half_pixel) extent = std::max(extent, 1.0);
  axis.bin = extent / static_cast<double>(bins);
  const int64_t ratio = attrs.Int("sampling_ratio", 0);
  const double count = ratio > 0 ? static_cast<double>(ratio) : std::ceil(axis.bin);
  if (!(count <= 4 * static_cast<double>(size) + 16)) {
    return BadInputError(StrCat("a region from ", begin, " to ", end, " has ", count,
                                " samples a bin along ", size, " elements; that is too many"));
  }
  axis.count = std::max<int64_t>(0, static_cast<int64_t>(count));
  return axis;
}

// As LinearTaps, but up to a whole place outside reads the edge.
AxisTaps EdgeTaps(double at, int64_t size) {
  if (!(at >= -1 && at <= static_cast<double>(size))) return {};
  return LinearTaps(std::clamp(at, 0.0, static_cast<double>(size - 1)), size);
}

// The average or, as ONNX defines it, the largest of the weighted taps of all samples of a bin.
template <typename T>
double PoolBin(const T* image, const Shape& x, const BinAxis& rows, const BinAxis& columns,
               int64_t row, int64_t column, bool takes_max) {
  double sum = 0, largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < rows.count; ++i) {
    const AxisTaps y = EdgeTaps(rows.At(row, i), x[2]);
    for (int64_t j = 0; j < columns.count; ++j) {
      const AxisTaps z = EdgeTaps(columns.At(column, j), x[3]);
      for (int a = 0; a < y.count; ++a) {
        for (int b = 0; b < z.count; ++b) {
          const double tap = y.weights[a] * z.weights[b] *
                             static_cast<double>(image[y.places[a] * x[3] + z.places[b]]);
          sum += tap;
          largest = std::max(largest, tap);
        }
      }
      // Taps that are missing, at an edge or outside, count as 0.
      if (y.count * z.count < 4) largest = std::max(largest, 0.0);
    }
  }
  if (rows.count * columns.count == 0) return 0;
  return takes_max ? largest : sum / static_cast<double>(rows.count * columns.count);
}

absl::Status AlignReference(const ReferenceContext& c) {
  const Shape &x = c.inputs[0].shape(), &out = c.outputs[0].shape();
  const bool takes_max = c.attrs.String("mode", "avg") == "max";
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    const T* rois = c.inputs[1].data<T>().data();
    T* to = c.outputs[0].mutable_data<T>().data();
    for (int64_t r = 0; r < out[0]; ++r, rois += 4) {
      MILLRACE_ASSIGN_OR_RETURN(const int64_t n, BatchOf(c.inputs[2].AsInt64(r), x, r));
      MILLRACE_ASSIGN_OR_RETURN(const BinAxis columns,
                                BinsOf(c.attrs, static_cast<double>(rois[0]),
                                       static_cast<double>(rois[2]), out[3], x[3]));
      MILLRACE_ASSIGN_OR_RETURN(const BinAxis rows,
                                BinsOf(c.attrs, static_cast<double>(rois[1]),
                                       static_cast<double>(rois[3]), out[2], x[2]));
      for (int64_t channel = 0; channel < x[1]; ++channel) {
        const T* image = c.inputs[0].data<T>().data() + (n * x[1] + channel) * x[2] * x[3];
        for (int64_t row = 0; row < out[2]; ++row) {
          for (int64_t column = 0; column < out[3]; ++column) {
            *to++ = Narrow<T>(PoolBin(image, x, rows, columns, row, column, takes_max));
          }
        }
      }
    }
    return absl::OkStatus();
  });
}

// --- MaxRoiPool --------------------------------------------------------------------------------

absl::Status InferMaxPool(InferContext& c) {
  const Shape &x = c.input(0).shape, &rois = c.input(1).shape;
  MILLRACE_RETURN_IF_ERROR(CheckImages(x, rois, 5));
  const std::vector<int64_t> pooled = c.attrs().Ints("pooled_shape");
  if (pooled.size() != 2) return BadInputError("'pooled_shape' must be a height and a width");
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, PooledShape(x, rois[0], pooled[0], pooled[1]));
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// Elements [first, last) of an axis that a bin covers.
struct Cells {
  int64_t first = 0, last = 0;
};

// Region [begin, end], both rounded and inclusive, in `bins` bins; clipped to the axis.
Cells CellsOf(double begin, double end, int64_t bins, int64_t bin, int64_t size) {
  const double first = std::round(begin);
  const double extent = std::max(std::round(end) - first + 1, 1.0) / static_cast<double>(bins);
  const double limit = static_cast<double>(size);
  return {static_cast<int64_t>(
              std::clamp(first + std::floor(static_cast<double>(bin) * extent), 0.0, limit)),
          static_cast<int64_t>(
              std::clamp(first + std::ceil(static_cast<double>(bin + 1) * extent), 0.0, limit))};
}

absl::Status MaxPoolReference(const ReferenceContext& c) {
  const Shape &x = c.inputs[0].shape(), &out = c.outputs[0].shape();
  const double scale = c.attrs.Float("spatial_scale", 1);
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    const T* rois = c.inputs[1].data<T>().data();
    T* to = c.outputs[0].mutable_data<T>().data();
    for (int64_t r = 0; r < out[0]; ++r, rois += 5) {
      double edges[4];
      for (int i = 0; i < 4; ++i) {
        edges[i] = static_cast<double>(rois[i + 1]) * scale;
        if (!std::isfinite(edges[i])) return BadInputError(StrCat("region ", r, " is not finite"));
      }
      const double image_index = static_cast<double>(rois[0]);
      const bool whole = image_index >= 0 && image_index < static_cast<double>(x[0]);
      MILLRACE_ASSIGN_OR_RETURN(const int64_t n,
                                BatchOf(whole ? static_cast<int64_t>(image_index) : -1, x, r));
      for (int64_t channel = 0; channel < x[1]; ++channel) {
        const T* image = c.inputs[0].data<T>().data() + (n * x[1] + channel) * x[2] * x[3];
        for (int64_t bin = 0; bin < out[2] * out[3]; ++bin) {
          const Cells rows = CellsOf(edges[1], edges[3], out[2], bin / out[3], x[2]);
          const Cells columns = CellsOf(edges[0], edges[2], out[3], bin % out[3], x[3]);
          const bool empty = rows.first >= rows.last || columns.first >= columns.last;
          T largest = empty ? T(0.0f) : image[rows.first * x[3] + columns.first];
          for (int64_t i = rows.first; i < rows.last; ++i) {
            for (int64_t j = columns.first; j < columns.last; ++j) {
              const T value = image[i * x[3] + j];
              if (static_cast<double>(value) > static_cast<double>(largest)) largest = value;
            }
          }
          *to++ = largest;
        }
      }
    }
    return absl::OkStatus();
  });
}

// Regions and channels are independent; all must be able to reach all images.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& out = query.outputs[0]->shape;
  if (Divisible(out, 0)) {
    ShardingRule rule = ReplicateAll(query, "split regions");
    for (size_t i = 1; i < rule.inputs.size(); ++i) rule.inputs[i] = ShardDim(0);
    rule.outputs[0] = ShardDim(0);
    rules.push_back(std::move(rule));
  }
  if (Divisible(out, 1)) {
    ShardingRule rule = ReplicateAll(query, "split channels");
    rule.inputs[0] = rule.outputs[0] = ShardDim(1);
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Four taps for each of four samples a bin, as regions of about the result's size take.
Work AlignWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const double ratio = static_cast<double>(query.attrs.Int("sampling_ratio", 0));
  work.flops = 8 * static_cast<double>(NumElements(query.outputs[0]->shape)) *
               (ratio > 0 ? ratio * ratio : 4);
  return work;
}

AttrSpec SpatialScale() {
  return {.name = "spatial_scale",
          .kind = AttrKind::kFloat,
          .default_value = 1.0,
          .doc = "from the regions' coordinates to elements"};
}

}  // namespace

OpDef RoiAlignOp() {
  const auto positive = [](std::string name) {
    return AttrSpec{.name = std::move(name), .kind = AttrKind::kInt, .default_value = int64_t{1}};
  };
  return {.name = "RoiAlign",
          .doc = "Regions of images, sampled between elements and pooled to one size",
          .tier = 2,
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,H,W]"},
                     {.name = "rois",
                      .dtypes = FloatTypes(),
                      .same_as = "T",
                      .doc = "[R,4]: x1, y1, x2, y2"},
                     {.name = "batch_indices",
                      .dtypes = {DType::kI64},
                      .doc = "which image each region is in"}},
          .outputs = {{.name = "Y", .same_as = "T", .doc = "[R,C,height,width]"}},
          .attrs = {{.name = "coordinate_transformation_mode",
                     .kind = AttrKind::kString,
                     .default_value = "half_pixel",
                     .choices = {"half_pixel", "output_half_pixel"}},
                    {.name = "mode",
                     .kind = AttrKind::kString,
                     .default_value = "avg",
                     .choices = {"avg", "max"}},
                    positive("output_height"),
                    positive("output_width"),
                    {.name = "sampling_ratio",
                     .kind = AttrKind::kInt,
                     .default_value = int64_t{0},
                     .doc = "samples along each axis of a bin; 0: as many as it spans elements"},
                    SpatialScale()},
          .infer = InferAlign,
          .reference = AlignReference,
          .sharding = Rules,
          .work = AlignWork};
}

OpDef MaxRoiPoolOp() {
  return {.name = "MaxRoiPool",
          .doc = "The largest elements of regions of images, in bins",
          .tier = 2,
          .inputs = {{.name = "X", .dtypes = FloatTypes(), .same_as = "T", .doc = "[N,C,H,W]"},
                     {.name = "rois",
                      .dtypes = FloatTypes(),
                      .same_as = "T",
                      .doc = "[R,5]: image, x1, y1, x2, y2, edges included"}},
          .outputs = {{.name = "Y", .same_as = "T", .doc = "[R,C,height,width]"}},
          .attrs = {{.name = "pooled_shape", .kind = AttrKind::kInts, .required = true},
                    SpatialScale()},
          .infer = InferMaxPool,
          .reference = MaxPoolReference,
          .sharding = Rules};
}

}  // namespace millrace
