#include "ops/onnx/conversion.h"

#include "graph/strings.h"
#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/onnx/tensor_proto.h"
#include "ops/op_def.h"

namespace millrace {

// Nodes with nested graphs are left out, and what is bounded, because inference of one node does
// not say so of its results: what follows from them stays unknown.
void TypedBuilder::InferNode(NodeId id) {
  const Node& node = graph().node(id);
  const OpDef* op = FindOp(node.op);
  if (op == nullptr || !node.subgraphs.empty() || op->traits.host_call) return;
  std::vector<Tensor> constants;
  for (ValueId input : node.inputs) {
    if (input.valid() && !graph().value(input).typed) return;
    constants.push_back(input.valid() ? KnownSoFar(input).value_or(Tensor()) : Tensor());
  }
  const auto types = InferOutputs(QueryFor(graph(), id), constants);
  if (!types.ok()) return;  // inference of the whole graph will tell
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    graph().value(node.outputs[i]).type = (*types)[i];
    graph().value(node.outputs[i]).typed = true;
  }
}

std::optional<TensorType> TypedBuilder::TypeOf(ValueId id) {
  while (inferred_ < graph().nodes.size()) InferNode(NodeId(inferred_++));
  if (!graph().value(id).typed) return std::nullopt;
  return graph().value(id).type;
}

std::optional<Tensor> TypedBuilder::KnownSoFar(ValueId id) {
  return sizes_hold_ ? known_.Of(id) : ConstantTensor(graph(), id);
}

std::optional<Tensor> TypedBuilder::Known(ValueId id) {
  TypeOf(id);
  return KnownSoFar(id);
}

void TypedBuilder::MakeConstant(ValueId id) {
  Value& value = graph().value(id);
  if (value.kind != ValueKind::kParam) return;
  value.kind = ValueKind::kConstant;
  value.trainable = false;
  std::erase(graph().params, id);
  graph().constants.push_back(id);
}

std::optional<std::vector<int64_t>> Conversion::KnownInts(size_t i) {
  if (!HasInput(i)) return std::nullopt;
  const std::optional<Tensor> tensor = builder.Known(node.inputs[i]);
  if (!tensor.has_value()) return std::nullopt;
  return IntsOf(*tensor);
}

std::optional<int> Conversion::Rank(size_t input) {
  const std::optional<TensorType> type = builder.TypeOf(node.inputs[input]);
  if (!type.has_value()) return std::nullopt;
  return type->shape.rank();
}

std::optional<DType> Conversion::ElementType(size_t input) {
  const std::optional<TensorType> type = builder.TypeOf(node.inputs[input]);
  if (!type.has_value()) return std::nullopt;
  return type->dtype;
}

void Conversion::SetInput(size_t i, ValueId value) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1);
  node.inputs[i] = value;
}

ValueId Conversion::Constant(Tensor tensor) {
  const std::string& base = node.name.empty() ? node.op : node.name;
  return builder.Constant(StrCat(base, ".constant"), std::move(tensor));
}

ValueId Conversion::Ints(std::span<const int64_t> values) {
  return Constant(Tensor::FromSpan<int64_t>({static_cast<int64_t>(values.size())}, values));
}

ValueId Conversion::Emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  const std::string& base = node.name.empty() ? node.op : node.name;
  return builder.Op(op, std::move(inputs), std::move(attrs), StrCat(base, ".", op));
}

void Conversion::IntsToInput(std::string_view attr, size_t i) {
  const AttrValue* value = node.attrs.Find(attr);
  if (value == nullptr) return;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(value)) SetInput(i, Ints(*ints));
  node.attrs.Erase(attr);
}

absl::Status Conversion::InputToInts(size_t i, std::string_view attr) {
  if (!HasInput(i)) return absl::OkStatus();
  const std::optional<std::vector<int64_t>> ints = KnownInts(i);
  if (!ints.has_value()) {
    return BadInputError(StrCat("'", attr, "' must be known while planning, but '",
                                builder.graph().value(node.inputs[i]).name, "' is not"));
  }
  node.attrs.Set(attr, *ints);
  node.inputs[i] = ValueId();
  return absl::OkStatus();
}

absl::Status Conversion::NumberToTypeName(std::string_view attr) {
  const AttrValue* value = node.attrs.Find(attr);
  if (value == nullptr || !std::holds_alternative<int64_t>(*value)) return absl::OkStatus();
  const int64_t number = std::get<int64_t>(*value);
  const int32_t data_type =
      number == static_cast<int32_t>(number) ? static_cast<int32_t>(number) : 0;
  const std::optional<DType> dtype = FromOnnxType(data_type);
  if (!dtype.has_value()) {
    return BadInputError(StrCat("attribute '", attr, "' is ", number, " (", OnnxTypeName(data_type),
                                "), an element type that is not supported"));
  }
  node.attrs.Set(attr, std::string(DTypeName(*dtype)));
  return absl::OkStatus();
}

namespace {

// Where our op wants the name of an element type, ONNX has its number (Cast's `to`). Loops are told
// how many of their inputs are captures, which ONNX does not count among them.
absl::Status FitAttributes(Conversion& c) {
  const OpDef* op = FindOp(c.node.op);
  if (op == nullptr) return absl::OkStatus();
  for (const AttrSpec& spec : op->attrs) {
    if (spec.name == "num_captures" && c.node.num_captures > 0) {
      c.node.attrs.Set(spec.name, c.node.num_captures);
    }
    if (spec.kind == AttrKind::kString) MILLRACE_RETURN_IF_ERROR(c.NumberToTypeName(spec.name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Convert(Conversion& c) {
  if (c.node.opset < 6) c.node.attrs.Erase("consumed_inputs");  // a hint about memory, long gone
  for (const auto rules : {ShapeRules(), MathRules(), LayerRules(), LoopRules()}) {
    for (const ConversionRule& rule : rules) {
      if (rule.op != c.node.op || c.node.opset < rule.first || c.node.opset > rule.last) continue;
      MILLRACE_RETURN_IF_ERROR(rule.convert(c));
    }
  }
  MILLRACE_RETURN_IF_ERROR(FitAttributes(c));
  while (!c.node.inputs.empty() && !c.node.inputs.back().valid()) c.node.inputs.pop_back();
  return absl::OkStatus();
}

}  // namespace millrace
