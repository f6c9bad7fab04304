// Shapes, slices and axes: mostly attributes that became operands.
#include <cmath>
#include <limits>

#include "graph/strings.h"
#include "ops/onnx/conversion.h"

namespace millrace {
namespace {

// Squeeze, Unsqueeze, ReduceSum.
absl::Status AxesToInput(Conversion& c) {
  c.IntsToInput("axes", 1);
  return absl::OkStatus();
}

absl::Status ConcatAxis(Conversion& c) {
  if (c.node.attrs.Find("axis") == nullptr) c.node.attrs.Set("axis", int64_t{1});
  return absl::OkStatus();
}

// The element, a tensor in ONNX, is a number and the name of its type here.
absl::Status ConstantOfShape(Conversion& c) {
  const auto value = c.node.tensors.find("value");
  if (value == c.node.tensors.end()) return absl::OkStatus();
  const Tensor& tensor = value->second;
  if (tensor.num_elements() != 1) {
    return BadInputError(
        StrCat("attribute 'value' must have one element, but is ", ToString(tensor.type())));
  }
  const double number = tensor.AsDouble(0);
  Tensor rounded = Tensor::Zeros({tensor.dtype(), Shape{}});
  rounded.Set(0, number);
  if (BitEqual(rounded, tensor.Reshaped({})) || std::isnan(number)) {
    // The defaults are ONNX's: 0, f32.
    if (number != 0 || std::signbit(number)) c.node.attrs.Set("value", number);
    if (tensor.dtype() != DType::kF32) {
      c.node.attrs.Set("dtype", std::string(DTypeName(tensor.dtype())));
    }
    return absl::OkStatus();
  }
  c.node.op = "Expand";  // an integer that no double holds
  c.SetInput(1, c.node.inputs.empty() ? ValueId() : c.node.inputs[0]);
  c.node.inputs[0] = c.Constant(tensor.Reshaped({}));
  return absl::OkStatus();
}

absl::Status ReshapeShape(Conversion& c) {
  c.IntsToInput("shape", 1);
  return absl::OkStatus();
}

absl::Status SliceBounds(Conversion& c) {
  c.IntsToInput("starts", 1);
  c.IntsToInput("ends", 2);
  c.IntsToInput("axes", 3);
  return absl::OkStatus();
}

absl::Status SplitSizes(Conversion& c) {
  c.IntsToInput("split", 1);
  return absl::OkStatus();
}

// `num_outputs`: parts of one size, rounded up, but for the last, which has what is left.
absl::Status SplitParts(Conversion& c) {
  const int64_t parts = c.node.attrs.Int("num_outputs", 0);
  c.node.attrs.Erase("num_outputs");
  if (parts == 0) return absl::OkStatus();
  if (parts != static_cast<int64_t>(c.node.outputs.size())) {
    return BadInputError(StrCat("attribute 'num_outputs' is ", parts, ", but the node has ",
                                c.node.outputs.size(), " results"));
  }
  const std::optional<TensorType> type = c.builder.TypeOf(c.node.inputs[0]);
  const int64_t axis = c.node.attrs.Int("axis", 0);
  if (!type.has_value() || !c.builder.sizes_hold())
    return absl::OkStatus();  // equal parts, if they are
  const int rank = type->shape.rank();
  if (axis < -rank || axis >= rank) return absl::OkStatus();  // inference will tell
  const int64_t total = type->shape[static_cast<int>(axis < 0 ? axis + rank : axis)];
  const int64_t size = (total + parts - 1) / parts;
  if (total % parts == 0 || size * (parts - 1) > total) return absl::OkStatus();
  std::vector<int64_t> sizes(parts, size);
  sizes.back() = total - size * (parts - 1);
  c.SetInput(1, c.Ints(sizes));
  return absl::OkStatus();
}

// So many tiles along one axis.
absl::Status TilesAlongAxis(Conversion& c) {
  const std::optional<int> rank = c.HasInput(0) ? c.Rank(0) : std::nullopt;
  const auto tiles = c.KnownInts(1), axis = c.KnownInts(2);
  if (!rank.has_value() || !tiles.has_value() || !axis.has_value() || tiles->size() != 1 ||
      axis->size() != 1) {
    return BadInputError("'tiles', 'axis' and the rank of 'input' must be known");
  }
  if ((*axis)[0] < 0 || (*axis)[0] >= *rank) {
    return BadInputError(StrCat("'axis' ", (*axis)[0], " is out of range [0,", *rank, ")"));
  }
  std::vector<int64_t> repeats(*rank, 1);
  repeats[(*axis)[0]] = (*tiles)[0];
  c.node.inputs = {c.node.inputs[0], c.Ints(repeats)};
  return absl::OkStatus();
}

absl::Status TopKCount(Conversion& c) {
  const int64_t k = c.node.attrs.Int("k", 0);
  c.node.attrs.Erase("k");
  c.SetInput(1, c.Ints({{k}}));
  return absl::OkStatus();
}

// Floats of the element type that input 0 has: f32 where that is unknown.
ValueId ScalarLikeInput(Conversion& c, double value) {
  Tensor scalar = Tensor::Zeros({c.ElementType(0).value_or(DType::kF32), Shape{}});
  scalar.Set(0, value);
  return c.Constant(std::move(scalar));
}

absl::Status PadSizes(Conversion& c) {
  c.IntsToInput(c.node.opset < 2 ? "paddings" : "pads", 1);
  if (c.node.attrs.Find("value") != nullptr) {
    c.SetInput(2, ScalarLikeInput(c, c.node.attrs.Float("value", 0)));
    c.node.attrs.Erase("value");
  }
  return absl::OkStatus();
}

absl::Status ClipBounds(Conversion& c) {
  constexpr std::string_view kNames[] = {"min", "max"};
  for (size_t i = 0; i < 2; ++i) {
    if (c.node.attrs.Find(kNames[i]) == nullptr) continue;
    c.SetInput(i + 1, ScalarLikeInput(c, c.node.attrs.Float(kNames[i], 0)));
    c.node.attrs.Erase(kNames[i]);
  }
  return absl::OkStatus();
}

absl::Status ScatterElements(Conversion& c) {
  c.node.op = "ScatterElements";
  return absl::OkStatus();
}

// Reductions take their axes as an attribute, up to opset 17, but for ReduceSum.
absl::Status AxesToAttribute(Conversion& c) {
  const bool none_means_none = c.node.attrs.Bool("noop_with_empty_axes", false);
  c.node.attrs.Erase("noop_with_empty_axes");
  MILLRACE_RETURN_IF_ERROR(c.InputToInts(1, "axes"));
  if (!none_means_none || !c.node.attrs.Ints("axes").empty()) return absl::OkStatus();
  // Each element is a reduction of itself.
  c.node.inputs.resize(1);
  c.node.attrs = Attrs();
  if (c.node.op == "ReduceL1" || c.node.op == "ReduceL2") {
    c.node.op = "Abs";
  } else if (c.node.op == "ReduceLogSum") {
    c.node.op = "Log";
  } else if (c.node.op == "ReduceSumSquare") {
    c.node.op = "Mul";
    c.SetInput(1, c.node.inputs[0]);
  } else {
    c.node.op = "Identity";
  }
  return absl::OkStatus();
}

constexpr ConversionRule kShapeRules[] = {
    {"Clip", 1, 10, ClipBounds},
    {"Concat", 1, 3, ConcatAxis},
    {"ConstantOfShape", 9, kForever, ConstantOfShape},
    {"Pad", 1, 10, PadSizes},
    {"ReduceL1", 18, kForever, AxesToAttribute},
    {"ReduceL2", 18, kForever, AxesToAttribute},
    {"ReduceLogSum", 18, kForever, AxesToAttribute},
    {"ReduceLogSumExp", 18, kForever, AxesToAttribute},
    {"ReduceMax", 18, kForever, AxesToAttribute},
    {"ReduceMean", 18, kForever, AxesToAttribute},
    {"ReduceMin", 18, kForever, AxesToAttribute},
    {"ReduceProd", 18, kForever, AxesToAttribute},
    {"ReduceSum", 1, 12, AxesToInput},
    {"ReduceSumSquare", 18, kForever, AxesToAttribute},
    {"Reshape", 1, 4, ReshapeShape},
    {"Scatter", 1, kForever, ScatterElements},
    {"Slice", 1, 9, SliceBounds},
    {"Split", 1, 12, SplitSizes},
    {"Split", 18, kForever, SplitParts},
    {"Squeeze", 1, 12, AxesToInput},
    {"Tile", 1, 5, TilesAlongAxis},
    {"TopK", 1, 9, TopKCount},
    {"Unsqueeze", 1, 12, AxesToInput},
};

}  // namespace

std::span<const ConversionRule> ShapeRules() { return kShapeRules; }

}  // namespace millrace
