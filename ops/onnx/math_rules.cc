// Constants, casts, broadcasting, softmax.
#include <limits>

#include "graph/strings.h"
#include "ops/onnx/conversion.h"
#include "ops/onnx/tensor_proto.h"

namespace millrace {
namespace {

// --- Constant ----------------------------------------------------------------------------------

absl::StatusOr<Tensor> ConstantValue(const Conversion& c) {
  for (const char* name : {"value", "sparse_value"}) {
    const auto found = c.node.tensors.find(name);
    if (found != c.node.tensors.end()) return found->second;
  }
  const Attrs& attrs = c.node.attrs;
  if (attrs.Find("value_float") != nullptr) {
    return Tensor::Scalar(static_cast<float>(attrs.Float("value_float", 0)));
  }
  if (attrs.Find("value_int") != nullptr) return Tensor::Scalar(attrs.Int("value_int", 0));
  if (const AttrValue* value = attrs.Find("value_floats")) {
    std::vector<float> floats;
    if (const auto* doubles = std::get_if<std::vector<double>>(value)) {
      floats.assign(doubles->begin(), doubles->end());
    }
    return Tensor::FromSpan<float>({static_cast<int64_t>(floats.size())}, floats);
  }
  if (attrs.Find("value_ints") != nullptr) {
    const std::vector<int64_t> ints = attrs.Ints("value_ints");
    return Tensor::FromSpan<int64_t>({static_cast<int64_t>(ints.size())}, ints);
  }
  if (attrs.Find("value_string") != nullptr || attrs.Find("value_strings") != nullptr) {
    return BadInputError("strings are not supported");
  }
  return BadInputError("has no 'value'");
}

absl::Status Constant(Conversion& c) {
  MILLRACE_ASSIGN_OR_RETURN(Tensor value, ConstantValue(c));
  const std::string& output = c.node.outputs.empty() ? c.node.name : c.node.outputs[0];
  c.values = {c.builder.Constant(output, std::move(value))};
  return absl::OkStatus();
}

// --- Cast --------------------------------------------------------------------------------------

// `saturate` is about 8-bit floats only.
absl::Status CastSaturate(Conversion& c) {
  c.node.attrs.Erase("saturate");
  return absl::OkStatus();
}

// Before opset 6, `to` is the name of an ONNX type ("FLOAT").
absl::Status CastToName(Conversion& c) {
  const AttrValue* to = c.node.attrs.Find("to");
  if (to == nullptr || !std::holds_alternative<std::string>(*to)) return absl::OkStatus();
  std::string name = std::get<std::string>(*to);
  for (char& letter : name) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (OnnxTypeName(ToOnnxType(dtype)) == name) {
      c.node.attrs.Set("to", std::string(DTypeName(dtype)));
    }
  }
  return absl::OkStatus();
}

// --- Broadcasting before opset 7 ---------------------------------------------------------------

// Operand 1 as [..., 1, 1]: its dims stand at `axis` of operand 0.
absl::Status AlignAt(Conversion& c, int64_t axis) {
  const std::optional<int> rank = c.Rank(0), rank_b = c.Rank(1);
  if (!rank.has_value() || !rank_b.has_value()) {
    return BadInputError("'broadcast' along an axis needs operands of known rank");
  }
  const int64_t first = axis < 0 ? axis + *rank : axis;
  const int64_t missing = *rank - first - *rank_b;
  if (missing < 0 || first < 0) {
    return BadInputError(
        StrCat("'axis' ", axis, " does not fit operands of rank ", *rank, " and ", *rank_b));
  }
  if (missing == 0) return absl::OkStatus();
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < missing; ++i) axes.push_back(*rank_b + i);
  c.node.inputs[1] = c.Emit("Unsqueeze", {c.node.inputs[1], c.Ints(axes)});
  return absl::OkStatus();
}

absl::Status LegacyBroadcast(Conversion& c) {
  const bool broadcast = c.node.attrs.Bool("broadcast", false);
  const AttrValue* axis = c.node.attrs.Find("axis");
  const int64_t at = c.node.attrs.Int("axis", 0);
  const bool aligned = broadcast && axis != nullptr && c.HasInput(0) && c.HasInput(1);
  c.node.attrs.Erase("broadcast");
  c.node.attrs.Erase("axis");
  return aligned ? AlignAt(c, at) : absl::OkStatus();
}

absl::Status GemmBroadcast(Conversion& c) {
  c.node.attrs.Erase("broadcast");  // what it allowed is always allowed now
  return absl::OkStatus();
}

// One slope a channel: along dim 1, whatever the rank.
absl::Status LegacyPRelu(Conversion& c) {
  if (!c.HasInput(0) || !c.HasInput(1)) return absl::OkStatus();
  const std::optional<TensorType> slope = c.builder.TypeOf(c.node.inputs[1]);
  if (slope.has_value() && (slope->shape.rank() != 1 || slope->shape[0] == 1)) {
    return absl::OkStatus();
  }
  return AlignAt(c, 1);
}

// --- Softmax before opset 13 -------------------------------------------------------------------

// Softmax, LogSoftmax and Hardmax worked on the input flattened to two dims at `axis` (default 1).
// That is the op along the last axis of that matrix, given the input's shape again.
absl::Status FlattenAtAxis(Conversion& c) {
  const int64_t axis = c.node.attrs.Int("axis", 1);
  c.node.attrs.Set("axis", int64_t{-1});
  if (axis == -1 || !c.HasInput(0)) return absl::OkStatus();
  const ValueId x = c.node.inputs[0];
  if (const std::optional<int> rank = c.Rank(0); rank.has_value() && axis == *rank - 1) {
    return absl::OkStatus();
  }
  Attrs flatten;
  flatten.Set("axis", axis);
  const ValueId matrix = c.Emit("Flatten", {x}, std::move(flatten));
  const ValueId result = c.Emit(c.node.op, {matrix}, c.node.attrs);
  c.node.op = "Reshape";
  c.node.attrs = Attrs();
  c.node.inputs = {result, c.Emit("Shape", {x})};
  return absl::OkStatus();
}

constexpr ConversionRule kMathRules[] = {
    {"Add", 1, 6, LegacyBroadcast},
    {"And", 1, 6, LegacyBroadcast},
    {"Cast", 1, 5, CastToName},
    {"Cast", 19, kForever, CastSaturate},
    {"CastLike", 19, kForever, CastSaturate},
    {"Constant", 1, kForever, Constant},
    {"Div", 1, 6, LegacyBroadcast},
    {"Equal", 1, 6, LegacyBroadcast},
    {"Gemm", 1, 6, GemmBroadcast},
    {"Greater", 1, 6, LegacyBroadcast},
    {"Hardmax", 1, 12, FlattenAtAxis},
    {"Less", 1, 6, LegacyBroadcast},
    {"LogSoftmax", 1, 12, FlattenAtAxis},
    {"Mul", 1, 6, LegacyBroadcast},
    {"Or", 1, 6, LegacyBroadcast},
    {"PRelu", 1, 6, LegacyPRelu},
    {"Pow", 1, 6, LegacyBroadcast},
    {"Softmax", 1, 12, FlattenAtAxis},
    {"Sub", 1, 6, LegacyBroadcast},
    {"Xor", 1, 6, LegacyBroadcast},
};

}  // namespace

std::span<const ConversionRule> MathRules() { return kMathRules; }

}  // namespace millrace
