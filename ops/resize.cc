// Along one axis, place x of the result lies at coordinate c of the input, in units of elements, by
// the transformation asked for. With left = ceil(c) - 1 and ratio = c - left in (0, 1], the weights
// are those of a filter around c on the places left + i; antialiasing stretches the filter by
// 1 / scale. Places outside the input are those at its edge, or are left out and the other weights
// scaled up (exclude_outside).
#include "ops/resize.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "graph/strings.h"
#include "ops/axes.h"

namespace millrace {
namespace {

// How one axis is resized.
struct AxisPlan {
  int axis = 0;
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

bool IsGiven(const Tensor* operand) { return operand != nullptr && operand->num_elements() > 0; }

bool Crops(const Attrs& attrs) {
  return attrs.String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
}

absl::StatusOr<std::vector<int>> ResizedAxes(const Attrs& attrs, int rank) {
  std::vector<int> axes;
  if (attrs.Find("axes") == nullptr) {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
    return axes;
  }
  for (int64_t axis : attrs.Ints("axes")) {  // operands are in this order
    MILLRACE_ASSIGN_OR_RETURN(axes.emplace_back(), NormalizeAxis(axis, rank));
    if (std::count(axes.begin(), axes.end(), axes.back()) > 1) {
      return BadInputError(StrCat("axis ", axis, " is given twice"));
    }
  }
  return axes;
}

absl::Status CheckCount(std::string_view name, const Tensor& operand, size_t expected) {
  if (operand.num_elements() == static_cast<int64_t>(expected)) return absl::OkStatus();
  return BadInputError(
      StrCat("'", name, "' has ", operand.num_elements(), " elements, expected ", expected));
}

absl::Status SetRoi(const Tensor* roi, std::vector<AxisPlan>& plans) {
  if (!IsGiven(roi)) return BadInputError("tf_crop_and_resize needs 'roi'");
  MILLRACE_RETURN_IF_ERROR(CheckCount("roi", *roi, 2 * plans.size()));
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].roi_begin = roi->AsDouble(static_cast<int64_t>(i));
    plans[i].roi_end = roi->AsDouble(static_cast<int64_t>(i + plans.size()));
    if (!std::isfinite(plans[i].roi_begin) || !std::isfinite(plans[i].roi_end)) {
      return BadInputError("'roi' must be finite");
    }
  }
  return absl::OkStatus();
}

absl::Status SetByScales(const Tensor& scales, std::vector<AxisPlan>& plans) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("scales", scales, plans.size()));
  for (size_t i = 0; i < plans.size(); ++i) {
    AxisPlan& plan = plans[i];
    plan.scale = scales.AsDouble(static_cast<int64_t>(i));
    if (!(plan.scale > 0) || !std::isfinite(plan.scale)) {
      return BadInputError(StrCat("'scales' has ", plan.scale, "; expected are positive numbers"));
    }
    const double out =
        std::floor(static_cast<double>(plan.in) * (plan.roi_end - plan.roi_begin) * plan.scale);
    if (!(out >= 0 && out <= static_cast<double>(kMaxBytes))) {
      return BadInputError(StrCat("dim ", plan.axis, " would have size ", out));
    }
    plan.out = static_cast<int64_t>(out);
  }
  return absl::OkStatus();
}

absl::Status SetBySizes(const Tensor& sizes, const std::string& policy,
                        std::vector<AxisPlan>& plans) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("sizes", sizes, plans.size()));
  double common = policy == "not_larger" ? INFINITY : 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    AxisPlan& plan = plans[i];
    plan.out = sizes.AsInt64(static_cast<int64_t>(i));
    if (plan.out < 0 || plan.out > kMaxBytes) {
      return BadInputError(StrCat("'sizes' has ", plan.out));
    }
    if (plan.in == 0) continue;
    plan.scale = static_cast<double>(plan.out) / static_cast<double>(plan.in);
    common = policy == "not_larger" ? std::min(common, plan.scale) : std::max(common, plan.scale);
  }
  if (policy == "stretch" || !std::isfinite(common)) return absl::OkStatus();
  for (AxisPlan& plan : plans) {
    plan.scale = common;
    const double out = std::floor(common * static_cast<double>(plan.in) + 0.5);
    if (out > static_cast<double>(kMaxBytes)) {
      return BadInputError(StrCat("dim ", plan.axis, " would have size ", out));
    }
    plan.out = static_cast<int64_t>(out);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AxisPlan>> PlansOf(const Attrs& attrs, const Shape& input,
                                              const ResizeOperands& operands) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> axes, ResizedAxes(attrs, input.rank()));
  std::vector<AxisPlan> plans;
  for (int axis : axes) plans.push_back({.axis = axis, .in = input[axis], .out = input[axis]});
  if (Crops(attrs)) MILLRACE_RETURN_IF_ERROR(SetRoi(operands.roi, plans));
  if (IsGiven(operands.scales) == IsGiven(operands.sizes) && !plans.empty()) {
    return BadInputError("exactly one of 'scales' and 'sizes' must be given");
  }
  const std::string policy = attrs.String("keep_aspect_ratio_policy", "stretch");
  if (IsGiven(operands.scales)) {
    if (policy != "stretch") {
      return BadInputError("'keep_aspect_ratio_policy' goes with 'sizes', not with 'scales'");
    }
    MILLRACE_RETURN_IF_ERROR(SetByScales(*operands.scales, plans));
  } else if (IsGiven(operands.sizes)) {
    MILLRACE_RETURN_IF_ERROR(SetBySizes(*operands.sizes, policy, plans));
  }
  for (const AxisPlan& plan : plans) {
    if (plan.in > 0 || plan.out == 0) continue;
    return BadInputError(StrCat("dim ", plan.axis, " is empty and cannot become ", plan.out));
  }
  return plans;
}

// --- One axis ----------------------------------------------------------------------------------

// Where place x of the result lies in the input.
double Coordinate(const std::string& mode, const AxisPlan& plan, int64_t place) {
  const double x = static_cast<double>(place), in = static_cast<double>(plan.in);
  const double resized = plan.scale * in, out = static_cast<double>(plan.out);
  if (mode == "align_corners") return resized == 1 ? 0 : x * (in - 1) / (resized - 1);
  if (mode == "asymmetric") return x / plan.scale;
  if (mode == "tf_crop_and_resize") {
    const double extent = (plan.roi_end - plan.roi_begin) * (in - 1);
    return plan.roi_begin * (in - 1) + (plan.out == 1 ? extent / 2 : x * extent / (out - 1));
  }
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / plan.scale;
  if (mode == "pytorch_half_pixel" && resized == 1) return -0.5;
  const double half_pixel = (x + 0.5) / plan.scale - 0.5;
  if (mode == "half_pixel_symmetric") return in / 2 * (1 - out / resized) + half_pixel;
  return half_pixel;
}

double CubicFilter(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double LinearFilter(double x) { return std::max(0.0, 1 - std::abs(x)); }

// Which of left and left + 1 is nearest: 0 or 1.
int Nearest(const std::string& mode, double ratio) {
  if (ratio == 1 || mode == "ceil") return 1;
  if (mode == "floor") return 0;
  return mode == "round_prefer_ceil" ? ratio >= 0.5 : ratio > 0.5;
}

class AxisResampler {
 public:
  AxisResampler(const Attrs& attrs, const AxisPlan& plan)
      : plan_(plan),
        mode_(attrs.String("mode", "nearest")),
        nearest_mode_(attrs.String("nearest_mode", "round_prefer_floor")),
        coordinates_(attrs.String("coordinate_transformation_mode", "half_pixel")),
        crops_(Crops(attrs)),
        exclude_outside_(attrs.Bool("exclude_outside", false)),
        cubic_a_(attrs.Float("cubic_coeff_a", -0.75)) {
    const bool stretches = attrs.Bool("antialias", false) && mode_ != "nearest";
    stretch_ = stretches ? std::min(plan.scale, 1.0) : 1;
  }

  absl::StatusOr<AxisResampling> Run() {
    AxisResampling axis{.axis = plan_.axis, .in = plan_.in, .out = plan_.out};
    if (plan_.out == 0) return axis;
    const double radius = mode_ == "cubic" ? 2 : 1;
    const double reach = mode_ == "nearest" ? 0 : std::floor(-radius / stretch_) + 1;
    const double taps = mode_ == "nearest" ? 1 : 2 - 2 * reach;
    // A filter stretched by in / out reaches over about 2 * radius * in / out places.
    const double in = static_cast<double>(plan_.in), out = static_cast<double>(plan_.out);
    if (out * taps > 8 * (in + out) + 64) {
      return BadInputError(StrCat("along dim ", plan_.axis, " the filter of scale ", plan_.scale,
                                  " is too wide for an input of ", plan_.in));
    }
    axis.taps = static_cast<int64_t>(taps);
    first_ = static_cast<int64_t>(reach);
    axis.places.reserve(static_cast<size_t>(plan_.out * axis.taps));
    axis.weights.reserve(axis.places.capacity());
    for (int64_t place = 0; place < plan_.out; ++place) AddPlace(place, axis);
    return axis;
  }

 private:
  void AddPlace(int64_t place, AxisResampling& axis) const {
    const double last = static_cast<double>(plan_.in - 1);
    double at = Coordinate(coordinates_, plan_, place);
    axis.outside.push_back(crops_ && (at < 0 || at > last));
    // Far outside all is the edge; this keeps numbers small enough to be integers.
    at = std::clamp(at, -1 - 2 * (last + 4), 3 * (last + 4));
    const int64_t left = static_cast<int64_t>(std::ceil(at)) - 1;
    const double ratio = at - static_cast<double>(left);
    if (mode_ == "nearest") {
      axis.places.push_back(Inside(left + Nearest(nearest_mode_, ratio)));
      axis.weights.push_back(1);
      return;
    }
    double sum = 0;
    const size_t begin = axis.weights.size();
    for (int64_t tap = 0; tap < axis.taps; ++tap) {
      const int64_t source = left + first_ + tap;
      const double x = (static_cast<double>(first_ + tap) - ratio) * stretch_;
      double weight = mode_ == "cubic" ? CubicFilter(x, cubic_a_) : LinearFilter(x);
      if (exclude_outside_ && (source < 0 || source >= plan_.in)) weight = 0;
      axis.places.push_back(Inside(source));
      axis.weights.push_back(weight);
      sum += weight;
    }
    if (!exclude_outside_ && stretch_ == 1) return;  // the filters' own weights sum to 1
    for (size_t i = begin; i < axis.weights.size() && sum != 0; ++i) axis.weights[i] /= sum;
  }

  int64_t Inside(int64_t place) const { return std::clamp<int64_t>(place, 0, plan_.in - 1); }

  const AxisPlan& plan_;
  const std::string mode_, nearest_mode_, coordinates_;
  const bool crops_, exclude_outside_;
  const double cubic_a_;
  double stretch_ = 1;  // of the filter's argument
  int64_t first_ = 0;   // place of the first tap, from `left`
};

}  // namespace

absl::StatusOr<Shape> ResizedShape(const Attrs& attrs, const Shape& input,
                                   const ResizeOperands& operands) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<AxisPlan> plans, PlansOf(attrs, input, operands));
  Shape result = input;
  for (const AxisPlan& plan : plans) result[plan.axis] = plan.out;
  return result;
}

absl::StatusOr<Resampling> ResamplingOf(const Attrs& attrs, const Shape& input,
                                        const ResizeOperands& operands) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<AxisPlan> plans, PlansOf(attrs, input, operands));
  Resampling resampling;
  resampling.result = input;
  resampling.nearest = attrs.String("mode", "nearest") == "nearest";
  resampling.extrapolation = attrs.Float("extrapolation_value", 0);
  for (const AxisPlan& plan : plans) {
    resampling.result[plan.axis] = plan.out;
    if (plan.scale == 1 && plan.in == plan.out && !Crops(attrs) &&
        attrs.String("coordinate_transformation_mode", "") != "tf_half_pixel_for_nn") {
      continue;  // each place lies on itself
    }
    MILLRACE_ASSIGN_OR_RETURN(AxisResampling axis, AxisResampler(attrs, plan).Run());
    resampling.axes.push_back(std::move(axis));
  }
  const auto growth = [](const AxisResampling& axis) {
    return static_cast<double>(axis.out) / static_cast<double>(std::max<int64_t>(1, axis.in));
  };
  std::ranges::stable_sort(resampling.axes, {}, growth);
  return resampling;
}

}  // namespace millrace
