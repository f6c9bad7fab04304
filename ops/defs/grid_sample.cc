// GridSample reads X at the coordinates of a grid; AffineGrid makes such a grid. Coordinates run
// from -1 to 1 over each spatial dim, the last dim's first; align_corners says whether -1 and 1 are
// the centres of the outermost elements or their outer edges.
#include <cmath>

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/dtypes.h"
#include "ops/gradient.h"
#include "ops/interpolation.h"
#include "ops/reference_dispatch.h"
#include "ops/sharding.h"
#include "ops/window.h"

namespace millrace {
namespace {

// --- GridSample --------------------------------------------------------------------------------

absl::Status Infer(InferContext& c) {
  const Shape &x = c.input(0).shape, &grid = c.input(1).shape;
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > kMaxSpatial) {
    return BadInputError(StrCat("X must have 3 to 5 dims, but has ", x.rank()));
  }
  if (grid.rank() != x.rank() || grid[0] != x[0] || grid[grid.rank() - 1] != spatial) {
    return BadInputError(StrCat("grid must have ", x.rank(), " dims, ", x[0], " in the first and ",
                                spatial, " in the last"));
  }
  Shape shape{x[0], x[1]};
  for (int d = 0; d < spatial; ++d) {
    if (x[d + 2] == 0 && NumElements(grid) > 0) {
      return BadInputError(StrCat("spatial dim ", d, " of X is empty"));
    }
    shape.push_back(grid[d + 1]);
  }
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

enum class Padding { kZeros, kBorder, kReflection };

class AxisSampler {
 public:
  AxisSampler(const Attrs& attrs, int64_t size)
      : mode_(attrs.String("mode", "bilinear")), size_(size) {
    const std::string padding = attrs.String("padding_mode", "zeros");
    padding_ = padding == "zeros"    ? Padding::kZeros
               : padding == "border" ? Padding::kBorder
                                     : Padding::kReflection;
    align_corners_ = attrs.Bool("align_corners", false);
    low_ = align_corners_ ? 0 : -0.5;
    high_ = static_cast<double>(size) - (align_corners_ ? 1 : 0.5);
  }

  // Of a coordinate in [-1,1], or beyond.
  AxisTaps TapsAt(double coordinate) const {
    const double size = static_cast<double>(size_);
    double at =
        align_corners_ ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
    if (!std::isfinite(at)) at = -2 * size - 8;
    if (mode_ == "nearest") at = std::nearbyint(at);
    if (padding_ == Padding::kBorder) at = std::clamp(at, 0.0, size - 1);
    if (padding_ == Padding::kReflection && (at < low_ || at > high_)) at = Reflect(at);
    at = std::clamp(at, -2 * size - 8, 3 * size + 8);  // as far outside, and an integer
    AxisTaps taps;
    const int64_t left = static_cast<int64_t>(std::floor(at));
    const double ratio = at - std::floor(at);
    if (mode_ == "nearest") {
      taps.Add(Place(left), 1);
    } else if (mode_ == "bilinear") {
      taps.Add(Place(left), 1 - ratio);
      taps.Add(Place(left + 1), ratio);
    } else {
      for (int i = -1; i <= 2; ++i) taps.Add(Place(left + i), Cubic(std::abs(ratio - i)));
    }
    return taps;
  }

 private:
  static double Cubic(double x) {
    constexpr double a = -0.75;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  }

  // Back and forth between low_ and high_.
  double Reflect(double at) const {
    const double range = high_ - low_;
    if (range <= 0) return low_;
    const double there = std::fmod(std::abs(at - low_), 2 * range);
    return low_ + (there <= range ? there : 2 * range - there);
  }

  int64_t Place(int64_t place) const {
    if (place >= 0 && place < size_) return place;
    switch (padding_) {
      case Padding::kZeros:
        return -1;
      case Padding::kBorder:
        return std::clamp<int64_t>(place, 0, size_ - 1);
      case Padding::kReflection:
        break;
    }
    return std::clamp<int64_t>(static_cast<int64_t>(Reflect(static_cast<double>(place))), 0,
                               size_ - 1);
  }

  const std::string mode_;
  const int64_t size_;
  Padding padding_ = Padding::kZeros;
  bool align_corners_ = false;
  double low_ = 0, high_ = 0;  // where reflection turns around
};

absl::Status Reference(const ReferenceContext& c) {
  const Shape &x_shape = c.inputs[0].shape(), &out = c.outputs[0].shape();
  if (NumElements(out) == 0) return absl::OkStatus();
  const int spatial = x_shape.rank() - 2;
  // Three spatial dims always; leading ones have size 1 and are read at their only place.
  std::vector<AxisSampler> samplers;
  int64_t image = 1, points = 1;
  Spatial strides{0, 0, 0};
  for (int d = spatial - 1; d >= 0; --d) {
    strides[d + kMaxSpatial - spatial] = image;
    image *= x_shape[d + 2];
    points *= out[d + 2];
  }
  for (int d = 0; d < spatial; ++d) samplers.emplace_back(c.attrs, x_shape[d + 2]);
  return VisitFloats(c.inputs[1].dtype(), [&](auto grid_tag) {
    using G = typename decltype(grid_tag)::type;
    const G* grid = c.inputs[1].data<G>().data();
    return VisitNumeric(c.outputs[0].dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* x = c.inputs[0].data<T>().data();
      T* y = c.outputs[0].mutable_data<T>().data();
      for (int64_t n = 0; n < out[0]; ++n) {
        for (int64_t p = 0; p < points; ++p) {
          std::array<AxisTaps, kMaxSpatial> taps;
          for (int d = 0; d < kMaxSpatial - spatial; ++d) taps[d].Add(0, 1);
          for (int d = 0; d < spatial; ++d) {
            const double at =
                static_cast<double>(grid[(n * points + p) * spatial + spatial - 1 - d]);
            taps[d + kMaxSpatial - spatial] = samplers[d].TapsAt(at);
          }
          for (int64_t channel = n * out[1]; channel < (n + 1) * out[1]; ++channel) {
            const T* from = x + channel * image;
            double sum = 0;
            for (int i = 0; i < taps[0].count; ++i) {
              if (taps[0].places[i] < 0) continue;
              sum += taps[0].weights[i] *
                     SumOfTaps(taps[1], taps[2], [&](int64_t row, int64_t column) {
                       if (row < 0 || column < 0) return 0.0;
                       return static_cast<double>(from[taps[0].places[i] * strides[0] +
                                                       row * strides[1] + column * strides[2]]);
                     });
            }
            y[channel * points + p] = Rounded<T>(sum);
          }
        }
      }
      return absl::OkStatus();
    });
  });
}

// Samples and channels are independent.
std::vector<ShardingRule> Rules(const NodeQuery& query) {
  std::vector<ShardingRule> rules;
  const Shape& out = query.outputs[0]->shape;
  if (Divisible(out, 0))
    rules.push_back({{ShardDim(0), ShardDim(0)}, {ShardDim(0)}, "split batch"});
  if (Divisible(out, 1)) {
    rules.push_back({{ShardDim(1), Replicate()}, {ShardDim(1)}, "split channels"});
  }
  for (int d = 2; d < out.rank(); ++d) {
    if (!Divisible(out, d)) continue;
    rules.push_back({{Replicate(), ShardDim(d - 1)},
                     {ShardDim(d)},
                     StrCat("split dim ", d - 1, " of the grid")});
  }
  if (IsFloat(query.inputs[0]->dtype)) AddPartialRules(query, 0, kLinearReductions, rules);
  return rules;
}

Work SampleWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const std::string mode = query.attrs.String("mode", "bilinear");
  const double taps = mode == "nearest" ? 1 : mode == "bicubic" ? 4 : 2;
  work.flops = 2 * static_cast<double>(NumElements(query.outputs[0]->shape)) *
               std::pow(taps, query.inputs[0]->shape.rank() - 2);
  return work;
}

// --- AffineGrid --------------------------------------------------------------------------------

// [N, C, spatial...] from operand 1.
absl::StatusOr<Shape> TargetShape(std::span<const int64_t> size, const Shape& theta) {
  const int spatial = static_cast<int>(size.size()) - 2;
  if (spatial != 2 && spatial != 3) {
    return BadInputError(StrCat("'size' has ", size.size(), " numbers, expected 4 or 5"));
  }
  if (theta != Shape{size[0], spatial, spatial + 1}) {
    return BadInputError(
        StrCat("theta must be ", ToString(Shape{size[0], spatial, spatial + 1}), " for this size"));
  }
  const Shape shape(size);
  if (CheckedNumElements(shape).has_value()) return shape;
  return BadInputError(StrCat("'size' is ", ToString(shape)));
}

absl::Status InferGrid(InferContext& c) {
  MILLRACE_ASSIGN_OR_RETURN(const auto size, ConstantInts(c, 1, "size", 5));
  MILLRACE_ASSIGN_OR_RETURN(const Shape target, TargetShape(size, c.input(0).shape));
  Shape shape{target[0]};
  for (int d = 2; d < target.rank(); ++d) shape.push_back(target[d]);
  shape.push_back(target.rank() - 2);
  c.set_output(0, {c.input(0).dtype, shape});
  return absl::OkStatus();
}

// The coordinates of all points of the spatial dims, each with a 1 after them: x, y, (z,) 1.
std::vector<double> HomogeneousPoints(std::span<const int64_t> dims, bool align_corners) {
  std::vector<double> points;
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  for (int64_t p = 0; p < count; ++p) {
    int64_t rest = p;
    for (size_t d = dims.size(); d-- > 0;) {
      const double size = static_cast<double>(dims[d]), i = static_cast<double>(rest % dims[d]);
      rest /= dims[d];
      points.push_back(align_corners ? (dims[d] == 1 ? 0 : 2 * i / (size - 1) - 1)
                                     : (2 * i + 1) / size - 1);
    }
    points.push_back(1);
  }
  return points;
}

absl::Status GridReference(const ReferenceContext& c) {
  if (c.outputs[0].num_elements() == 0) return absl::OkStatus();
  const Shape& shape = c.outputs[0].shape();
  const int spatial = static_cast<int>(shape[shape.rank() - 1]);
  const std::vector<double> points =
      HomogeneousPoints(shape.dims().subspan(1, spatial), c.attrs.Bool("align_corners", false));
  return VisitFloats(c.outputs[0].dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* theta = c.inputs[0].data<T>().data();
    T* to = c.outputs[0].mutable_data<T>().data();
    for (int64_t n = 0; n < shape[0]; ++n, theta += spatial * (spatial + 1)) {
      for (size_t p = 0; p < points.size(); p += spatial + 1) {
        for (int row = 0; row < spatial; ++row) {
          double sum = 0;
          for (int i = 0; i <= spatial; ++i) {
            sum += static_cast<double>(theta[row * (spatial + 1) + i]) * points[p + i];
          }
          *to++ = Narrow<T>(sum);
        }
      }
    }
    return absl::OkStatus();
  });
}

// The grid is linear in theta: grid = points * theta^T.
absl::Status GridGradient(GradientContext& c) {
  Forward f(c);
  if (!f.wants(0)) return absl::OkStatus();
  const Shape& shape = f.output_type(0).shape;
  const int spatial = static_cast<int>(shape[shape.rank() - 1]);
  const std::span<const int64_t> dims = shape.dims().subspan(1, spatial);
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  const std::vector<double> points =
      HomogeneousPoints(dims, f.attrs().Bool("align_corners", false));
  Tensor constant = Tensor::Zeros({f.output_type(0).dtype, {count, spatial + 1}});
  for (size_t i = 0; i < points.size(); ++i) constant.Set(static_cast<int64_t>(i), points[i]);
  const Term dy = Reshape(f.output_grad(0), {shape[0], count, spatial});
  const Term p{dy.builder, dy.builder->Constant("points", std::move(constant)), dy.dtype};
  f.set_grad(0, Apply("MatMul", {SwapLastDims(dy, 3), p}));
  return absl::OkStatus();
}

Work GridWork(const NodeQuery& query) {
  Work work = DefaultWork(query);
  const Shape& shape = query.outputs[0]->shape;
  work.flops = 2 * static_cast<double>(NumElements(shape)) *
               static_cast<double>(shape[shape.rank() - 1] + 1);
  return work;
}

AttrSpec AlignCorners() {
  return {.name = "align_corners",
          .kind = AttrKind::kBool,
          .default_value = false,
          .doc = "-1 and 1 are the centres of the outermost elements, not their edges"};
}

}  // namespace

OpDef GridSampleOp() {
  return {
      .name = "GridSample",
      .doc = "X read at the coordinates that a grid gives",
      .tier = 2,
      .inputs = {{.name = "X", .dtypes = NumericTypes(), .same_as = "T", .doc = "[N,C,...]"},
                 {.name = "grid",
                  .dtypes = FloatTypes(),
                  .same_as = "G",
                  .doc = "[N,...,k]: a coordinate in [-1,1] per spatial dim, the last's first"}},
      .outputs = {{.name = "Y", .same_as = "T"}},
      .attrs = {AlignCorners(),
                {.name = "mode",
                 .kind = AttrKind::kString,
                 .default_value = "bilinear",
                 .choices = {"bilinear", "nearest", "bicubic"}},
                {.name = "padding_mode",
                 .kind = AttrKind::kString,
                 .default_value = "zeros",
                 .choices = {"zeros", "border", "reflection"},
                 .doc = "what is outside"}},
      .infer = Infer,
      .reference = Reference,
      .sharding = Rules,
      .work = SampleWork};
}

OpDef AffineGridOp() {
  return {.name = "AffineGrid",
          .doc = "The grid, for GridSample, that an affine map makes of all points",
          .tier = 2,
          .inputs = {{.name = "theta",
                      .dtypes = FloatTypes(),
                      .same_as = "T",
                      .doc = "[N,k,k+1] for k spatial dims"},
                     {.name = "size", .dtypes = {DType::kI64}, .doc = "N, C, spatial dims"}},
          .outputs = {{.name = "grid", .same_as = "T"}},
          .attrs = {AlignCorners()},
          .traits = {.host_inputs = {1}},
          .infer = InferGrid,
          .reference = GridReference,
          .gradient = GridGradient,
          .work = GridWork};
}

}  // namespace millrace
