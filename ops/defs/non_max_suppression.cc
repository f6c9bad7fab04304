// NonMaxSuppression: for each image and class, boxes by descending score, but those that overlap a
// box chosen before by more than a threshold. Ties go to the box that comes first.
#include <algorithm>
#include <cmath>

#include "graph/strings.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

absl::Status Infer(InferContext& c) {
  const Shape &boxes = c.input(0).shape, &scores = c.input(1).shape;
  if (boxes.rank() != 3 || boxes[2] != 4) {
    return BadInputError(StrCat("boxes must be [images,boxes,4], not ", ToString(boxes)));
  }
  if (scores.rank() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1]) {
    return BadInputError(
        StrCat("scores must be [", boxes[0], ",classes,", boxes[1], "], not ", ToString(scores)));
  }
  for (int i = 2; i < 5; ++i) {
    if (!c.has_input(i) || CheckedNumElements(c.input(i).shape) == 1) continue;
    return BadInputError("the limit and the thresholds must have exactly one element each");
  }
  int64_t per_class = boxes[1];
  if (!c.has_input(2)) {
    per_class = 0;
  } else if (const std::optional<Tensor> limit = c.constant(2); limit.has_value()) {
    per_class = std::clamp<int64_t>(limit->AsInt64(0), 0, per_class);
  }
  const std::optional<int64_t> most = CheckedNumElements({scores[0], scores[1], per_class});
  if (!most.has_value()) return BadInputError("there would be too many boxes");
  c.set_output(0, {DType::kI64, {*most, 3}}, /*bounded=*/true);
  return absl::OkStatus();
}

struct Box {
  double low[2], high[2];

  double Area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

Box BoxAt(const Tensor& boxes, int64_t at, bool centered) {
  Box box;
  for (int d = 0; d < 2; ++d) {
    const double a = boxes.AsDouble(4 * at + d), b = boxes.AsDouble(4 * at + 2 + d);
    box.low[d] = centered ? a - b / 2 : std::min(a, b);
    box.high[d] = centered ? a + b / 2 : std::max(a, b);
  }
  return box;
}

// What two boxes share, of what they cover together.
double Overlap(const Box& a, const Box& b) {
  double shared = 1;
  for (int d = 0; d < 2; ++d) {
    shared *= std::max(0.0, std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]));
  }
  const double together = a.Area() + b.Area() - shared;
  return shared > 0 && together > 0 ? shared / together : 0;
}

// The operand's number, or `otherwise`.
double NumberOr(const ReferenceContext& c, size_t operand, double otherwise) {
  const bool given = operand < c.inputs.size() && c.inputs[operand].has_data();
  return given ? c.inputs[operand].AsDouble(0) : otherwise;
}

absl::Status Reference(const ReferenceContext& c) {
  const Tensor &boxes = c.inputs[0], &scores = c.inputs[1];
  const int64_t count = boxes.shape()[1], classes = scores.shape()[1];
  const double limit = NumberOr(c, 2, 0), overlap = NumberOr(c, 3, 0);
  const double least = NumberOr(c, 4, -std::numeric_limits<double>::infinity());
  const bool centered = c.attrs.Int("center_point_box", 0) == 1;
  std::vector<int64_t> selected;
  std::vector<int64_t> order;
  for (int64_t row = 0; row < scores.shape()[0] * classes; ++row) {
    order.clear();
    for (int64_t i = 0; i < count; ++i) {
      if (scores.AsDouble(row * count + i) > least) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return scores.AsDouble(row * count + a) > scores.AsDouble(row * count + b);
    });
    const int64_t image = row / classes;
    std::vector<Box> chosen;
    for (int64_t i : order) {
      if (static_cast<double>(chosen.size()) >= limit) break;
      const Box box = BoxAt(boxes, image * count + i, centered);
      const auto overlaps = [&](const Box& other) { return Overlap(box, other) > overlap; };
      if (std::ranges::any_of(chosen, overlaps)) continue;
      chosen.push_back(box);
      selected.insert(selected.end(), {image, row % classes, i});
    }
  }
  c.outputs[0] =
      Tensor::FromSpan<int64_t>({static_cast<int64_t>(selected.size() / 3), 3}, selected);
  return absl::OkStatus();
}

}  // namespace

OpDef NonMaxSuppressionOp() {
  const auto number = [](std::string name, DType dtype, std::string doc) {
    return OperandSpec{
        .name = std::move(name), .dtypes = {dtype}, .optional = true, .doc = std::move(doc)};
  };
  return {
      .name = "NonMaxSuppression",
      .doc = "The best boxes of each image and class that do not overlap one another too much",
      .tier = 2,
      .inputs = {{.name = "boxes", .dtypes = {DType::kF32}, .doc = "[images,boxes,4]"},
                 {.name = "scores", .dtypes = {DType::kF32}, .doc = "[images,classes,boxes]"},
                 number("max_output_boxes_per_class", DType::kI64, "absent: 0, and no boxes"),
                 number("iou_threshold", DType::kF32,
                        "shared area over joint area that is too much; absent: 0"),
                 number("score_threshold", DType::kF32, "absent: any score will do")},
      .outputs = {{.name = "selected_indices",
                   .doc = "[n,3]: image, class, box; n is known only at run time"}},
      .attrs = {{.name = "center_point_box",
                 .kind = AttrKind::kInt,
                 .default_value = int64_t{0},
                 .doc = "0: boxes are two corners y, x; 1: a centre x, y, a width and a height"}},
      .traits = {.host_call = true},
      .infer = Infer,
      .reference = Reference};
}

}  // namespace millrace
