#include "tools/op_samples.h"

#include <algorithm>

#include "ops/infer.h"

namespace millrace {
namespace {

// Shapes of an op's operands, most specific first: convolution, row-wise with scale and bias,
// matrices with a row of biases, matrices, data with a list of two indices, gradients of windows.
const std::vector<std::vector<Shape>>& ShapeLists() {
  static const auto& lists = *new std::vector<std::vector<Shape>>{
      {{2, 16, 8, 8}, {16, 16, 3, 3}, {16}},
      {{2, 16, 8, 8}, {16}, {16}, {16}, {16}},
      {{2, 16, 8, 8}, {16}, {16}},
      {{2, 16, 8, 8}},
      {{64, 64}, {64}, {64}},
      {{64, 64}, {64, 64}, {64}},
      {{64, 64}, {64, 64}},
      {{64, 64}, {2}},
      {{64, 64}},
      {{64}},
      {{2, 16, 1, 1}, {16, 16, 2, 2}},
      {{2, 16, 1, 1}, {2, 16, 2, 2}},
      {{2, 16, 2, 2}, {2, 16, 1, 1}},
  };
  return lists;
}

// Values for the attributes that have no default.
Attrs RequiredAttrs(const OpDef& op) {
  Attrs attrs;
  for (const AttrSpec& spec : op.attrs) {
    if (!spec.required) continue;
    switch (spec.kind) {
      case AttrKind::kBool:
        attrs.Set(spec.name, true);
        break;
      case AttrKind::kInt:
        attrs.Set(spec.name, int64_t{1});
        break;
      case AttrKind::kFloat:
        attrs.Set(spec.name, 1.0);
        break;
      case AttrKind::kString:
        attrs.Set(spec.name, spec.choices.empty() ? std::string("f32") : spec.choices[0]);
        break;
      case AttrKind::kInts:
        attrs.Set(spec.name, std::vector<int64_t>{2, 2});
        break;
      case AttrKind::kFloats:
        attrs.Set(spec.name, std::vector<double>{1, 1});
        break;
      case AttrKind::kStrings:
        attrs.Set(spec.name, std::vector<std::string>{"a"});
        break;
    }
  }
  return attrs;
}

const OperandSpec* SpecAt(const std::vector<OperandSpec>& specs, size_t i) {
  if (i < specs.size()) return &specs[i];
  return !specs.empty() && specs.back().variadic ? &specs.back() : nullptr;
}

bool Allows(const OperandSpec& spec, DType dtype) {
  return spec.dtypes.empty() ||
         std::find(spec.dtypes.begin(), spec.dtypes.end(), dtype) != spec.dtypes.end();
}

// The op on operands of `shapes`; nullopt when the signature or inference refuses.
std::optional<NodeQuery> SampleQuery(const OpDef& op, DType dtype,
                                     const std::vector<Shape>& shapes) {
  NodeQuery query;
  query.op = op.name;
  query.attrs = RequiredAttrs(op);
  std::vector<Tensor> constants;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const OperandSpec* spec = SpecAt(op.inputs, i);
    if (spec == nullptr) return std::nullopt;
    const DType type = Allows(*spec, dtype) ? dtype : spec->dtypes[0];
    query.inputs.push_back(TensorType{type, shapes[i]});
    // Whatever operand is a target shape: that of the first operand.
    const bool known = type == DType::kI64 && shapes[i] == Shape{2};
    constants.push_back(known ? Tensor::Of<int64_t>({2}, {64, 64}) : Tensor());
  }
  for (size_t i = shapes.size(); i < op.inputs.size(); ++i) {
    if (!op.inputs[i].optional && !op.inputs[i].variadic) return std::nullopt;
  }
  query.outputs.push_back(TensorType{});
  absl::StatusOr<std::vector<TensorType>> types = InferOutputs(query, constants);
  if (!types.ok() || types->empty()) return std::nullopt;
  query.outputs.assign(types->begin(), types->end());
  return query;
}

}  // namespace

std::vector<DType> SampleTypes(const OpDef& op) {
  for (const OperandSpec& input : op.inputs) {
    if (input.dtypes.size() > 1) return input.dtypes;
  }
  if (!op.inputs.empty() && op.inputs[0].dtypes.size() == 1) return op.inputs[0].dtypes;
  std::vector<DType> all;
  for (int i = 0; i < kNumDTypes; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

std::vector<std::string> SampleKernels(const OpDef& op, DType dtype, const Target& target) {
  const std::vector<DType> types = SampleTypes(op);
  if (std::find(types.begin(), types.end(), dtype) == types.end()) return {};
  for (const std::vector<Shape>& shapes : ShapeLists()) {
    const std::optional<NodeQuery> query = SampleQuery(op, dtype, shapes);
    if (!query.has_value()) continue;
    std::vector<std::string> names;
    for (const KernelVariant& variant : target.Variants(*query)) names.push_back(variant.name);
    return names;
  }
  if (op.reference == nullptr || target.device_kind() != "cpu") return {};
  return {"reference"};
}

}  // namespace millrace
