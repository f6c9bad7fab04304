// Layers of networks: normalization, dropout, resizing, recurrent ones.
#include <bit>
#include <cmath>
#include <limits>

#include "graph/strings.h"
#include "ops/onnx/conversion.h"

namespace millrace {
namespace {

// Running statistics are no weights, although they are floats in a file.
void FreezeStatistics(Conversion& c) {
  for (const size_t i : {3, 4}) {
    if (!c.HasInput(i)) continue;
    Value& value = c.builder.graph().value(c.node.inputs[i]);
    if (value.kind == ValueKind::kParam) value.trainable = false;
  }
}

// Before opset 14: training when more than one result is asked for (before 7: unless is_test).
absl::Status LegacyBatchNormalization(Conversion& c) {
  FreezeStatistics(c);
  Attrs& attrs = c.node.attrs;
  if (c.node.opset < 9 && !attrs.Bool("spatial", true)) {
    return BadInputError("'spatial' = 0 (statistics per element) is not supported");
  }
  const bool training =
      c.node.opset < 7 ? !attrs.Bool("is_test", false) && c.node.outputs.size() > 1 : false;
  while (c.node.outputs.size() > 1 && c.node.outputs.back().empty()) c.node.outputs.pop_back();
  if (training || c.node.outputs.size() > 1) {
    return BadInputError("training results are not supported before opset 14");
  }
  for (const char* name : {"spatial", "is_test", "momentum"}) attrs.Erase(name);
  return absl::OkStatus();
}

absl::Status BatchNormalization(Conversion& c) {
  FreezeStatistics(c);
  return absl::OkStatus();
}

// `ratio` became an operand in opset 12, and training became a choice at run time. Before opset 7
// a node trains unless it says is_test; from then on it never does.
absl::Status LegacyDropout(Conversion& c) {
  const double ratio = c.node.attrs.Float("ratio", 0.5);
  const bool training = c.node.opset < 7 && !c.node.attrs.Bool("is_test", false);
  c.node.attrs.Erase("ratio");
  c.node.attrs.Erase("is_test");
  c.SetInput(1, c.Constant(Tensor::Scalar(static_cast<float>(ratio))));
  if (training) c.SetInput(2, c.Constant(Tensor::Scalar(true)));
  return absl::OkStatus();
}

// --- Resizing ----------------------------------------------------------------------------------

// Upsample and the first Resize sample at i / scale, rounded down.
void AsResize(Conversion& c) {
  c.node.op = "Resize";
  c.node.attrs.Set("coordinate_transformation_mode", std::string("asymmetric"));
  c.node.attrs.Set("nearest_mode", std::string("floor"));
  if (c.node.attrs.String("mode", "nearest") == "bilinear") {
    c.node.attrs.Set("mode", std::string("linear"));
  }
}

// Dims that stay what they are are left out of what is resized: what remains is clear without
// knowing the data (ops/defs/resize.cc).
absl::Status LeaveOutKeptDims(Conversion& c) {
  const bool crops =
      c.node.attrs.String("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (crops || c.node.attrs.Find("axes") != nullptr || !c.HasInput(2)) return absl::OkStatus();
  c.builder.MakeConstant(c.node.inputs[2]);
  const std::optional<Tensor> scales = ConstantTensor(c.builder.graph(), c.node.inputs[2]);
  if (!scales.has_value() || scales->dtype() != DType::kF32) return absl::OkStatus();
  std::vector<int64_t> axes;
  std::vector<float> others;
  for (int64_t d = 0; d < scales->num_elements(); ++d) {
    if (scales->data<float>()[d] == 1) continue;
    axes.push_back(d);
    others.push_back(scales->data<float>()[d]);
  }
  if (static_cast<int64_t>(axes.size()) == scales->num_elements()) return absl::OkStatus();
  c.node.attrs.Set("axes", axes);
  c.SetInput(2, c.Constant(Tensor::FromSpan<float>({static_cast<int64_t>(others.size())}, others)));
  return absl::OkStatus();
}

absl::Status Upsample(Conversion& c) {
  Attrs& attrs = c.node.attrs;
  ValueId scales = c.HasInput(1) ? c.node.inputs[1] : ValueId();
  if (const AttrValue* value = attrs.Find("scales")) {
    std::vector<float> floats;
    if (const auto* doubles = std::get_if<std::vector<double>>(value)) {
      floats.assign(doubles->begin(), doubles->end());
    }
    const Shape shape = {static_cast<int64_t>(floats.size())};
    scales = c.Constant(Tensor::FromSpan<float>(shape, floats));
    attrs.Erase("scales");
  } else if (attrs.Find("height_scale") != nullptr) {
    const float height = static_cast<float>(attrs.Float("height_scale", 1));
    const float width = static_cast<float>(attrs.Float("width_scale", 1));
    scales = c.Constant(Tensor::Of<float>({4}, {1, 1, height, width}));
    attrs.Erase("height_scale");
    attrs.Erase("width_scale");
  }
  if (!scales.valid()) return BadInputError("has no 'scales'");
  c.node.inputs = {c.node.inputs.empty() ? ValueId() : c.node.inputs[0], ValueId(), scales};
  AsResize(c);
  return LeaveOutKeptDims(c);
}

absl::Status FirstResize(Conversion& c) {
  if (c.node.inputs.size() != 2) return absl::OkStatus();  // inference will tell
  c.node.inputs = {c.node.inputs[0], ValueId(), c.node.inputs[1]};
  AsResize(c);
  return LeaveOutKeptDims(c);
}

// --- Others ------------------------------------------------------------------------------------

absl::Status LegacyRecurrent(Conversion& c) {
  c.node.attrs.Erase("output_sequence");  // whether a result is wanted follows from its name
  return absl::OkStatus();
}

// Seeds are integers here. A node without one draws a stream of its own, named after its result.
absl::Status Seed(Conversion& c) {
  uint64_t seed = 14695981039346656037u;  // FNV-1a
  if (const AttrValue* given = c.node.attrs.Find("seed")) {
    const double* number = std::get_if<double>(given);
    if (number == nullptr) return absl::OkStatus();
    const bool whole = std::abs(*number) < 0x1p53 && *number == std::floor(*number);
    seed = whole ? static_cast<uint64_t>(static_cast<int64_t>(*number))
                 : std::bit_cast<uint64_t>(*number);
  } else if (!c.node.outputs.empty()) {
    for (const char ch : c.node.outputs[0]) {
      seed = (seed ^ static_cast<uint8_t>(ch)) * 1099511628211u;
    }
  }
  c.node.attrs.Set("seed", static_cast<int64_t>(seed));
  return absl::OkStatus();
}

absl::Status GridSampleModes(Conversion& c) {
  const std::string mode = c.node.attrs.String("mode", "linear");
  if (mode == "linear") c.node.attrs.Set("mode", std::string("bilinear"));
  if (mode == "cubic") c.node.attrs.Set("mode", std::string("bicubic"));
  return absl::OkStatus();
}

absl::Status DftAxis(Conversion& c) {
  const std::optional<std::vector<int64_t>> axis = c.KnownInts(2);
  if (c.HasInput(2) && (!axis.has_value() || axis->size() != 1)) {
    return BadInputError("'axis' must be a constant");
  }
  c.node.attrs.Set("axis", axis.has_value() ? (*axis)[0] : int64_t{-2});
  if (c.HasInput(2)) c.node.inputs[2] = ValueId();
  return absl::OkStatus();
}

// `p` was a float once, always with the value of an integer.
absl::Status IntegerNorm(Conversion& c) {
  const double p = c.node.attrs.Float("p", 2);
  if (p != std::floor(p) || std::abs(p) > INT32_MAX) {
    return BadInputError(StrCat("attribute 'p' is ", p, "; expected an integer"));
  }
  c.node.attrs.Set("p", static_cast<int64_t>(p));
  return absl::OkStatus();
}

// Boxes were not shifted by half a pixel before that was a choice.
absl::Status UnshiftedBoxes(Conversion& c) {
  c.node.attrs.Set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return absl::OkStatus();
}

// Scale and bias were per group: each is repeated for the channels of its group.
absl::Status PerChannel(Conversion& c) {
  if (!c.HasInput(0) || !c.HasInput(1) || !c.HasInput(2)) return absl::OkStatus();
  const std::optional<TensorType> x = c.builder.TypeOf(c.node.inputs[0]);
  const int64_t groups = c.node.attrs.Int("num_groups", 0);
  if (!x.has_value() || !c.builder.sizes_hold() || x->shape.rank() < 2) {
    return BadInputError("the number of channels must be known");
  }
  if (groups <= 0 || x->shape[1] % groups != 0) {
    return BadInputError(
        StrCat("'num_groups' ", groups, " does not divide the ", x->shape[1], " channels"));
  }
  for (const size_t i : {1, 2}) {
    const ValueId column = c.Emit("Unsqueeze", {c.node.inputs[i], c.Ints({{1}})});
    const ValueId matrix = c.Emit("Expand", {column, c.Ints({{groups, x->shape[1] / groups}})});
    c.node.inputs[i] = c.Emit("Reshape", {matrix, c.Ints({{-1}})});
  }
  return absl::OkStatus();
}

constexpr ConversionRule kLayerRules[] = {
    {"BatchNormalization", 1, 13, LegacyBatchNormalization},
    {"BatchNormalization", 14, kForever, BatchNormalization},
    {"Bernoulli", 1, kForever, Seed},
    {"DFT", 20, kForever, DftAxis},
    {"Dropout", 1, 11, LegacyDropout},
    {"GRU", 1, 6, LegacyRecurrent},
    {"GlobalLpPool", 1, 1, IntegerNorm},
    {"GridSample", 20, kForever, GridSampleModes},
    {"GroupNormalization", 18, 20, PerChannel},
    {"LSTM", 1, 6, LegacyRecurrent},
    {"LpPool", 1, 1, IntegerNorm},
    {"Multinomial", 1, kForever, Seed},
    {"RNN", 1, 6, LegacyRecurrent},
    {"RandomNormal", 1, kForever, Seed},
    {"RandomNormalLike", 1, kForever, Seed},
    {"RandomUniform", 1, kForever, Seed},
    {"RandomUniformLike", 1, kForever, Seed},
    {"Resize", 10, 10, FirstResize},
    {"Resize", 11, kForever, LeaveOutKeptDims},
    {"RoiAlign", 10, 15, UnshiftedBoxes},
    {"Upsample", 1, 9, Upsample},
};

}  // namespace

std::span<const ConversionRule> LayerRules() { return kLayerRules; }

}  // namespace millrace
