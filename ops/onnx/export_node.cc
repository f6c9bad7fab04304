#include "ops/onnx/export_node.h"

#include "graph/strings.h"
#include "ops/onnx/tensor_proto.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// Ops that are younger than opset 17, and what older ops learned since: an attribute, an input.
struct Birth {
  std::string_view op;
  int64_t opset;
  std::string_view attr = "";
  std::string_view value = "";  // of the attribute, where it is a value that is young
  int input = -1;
};
constexpr Birth kYoung[] = {
    {"AffineGrid", 20},
    {"AveragePool", 19, "dilations"},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"CenterCropPad", 18},
    {"Col2Im", 18},
    {"DeformConv", 19},
    {"Gelu", 20},
    {"GroupNormalization", 21},
    {"LpPool", 18, "ceil_mode"},
    {"LpPool", 18, "dilations"},
    {"Mish", 18},
    {"Pad", 18, "", "", 3},
    {"Pad", 19, "mode", "wrap"},
    {"RMSNormalization", 23},
    {"Resize", 18, "antialias"},
    {"Resize", 18, "axes"},
    {"Resize", 18, "keep_aspect_ratio_policy"},
    {"Resize", 19, "coordinate_transformation_mode", "half_pixel_symmetric"},
    {"ScatterElements", 18, "reduction", "max"},
    {"ScatterElements", 18, "reduction", "min"},
    {"ScatterND", 18, "reduction", "max"},
    {"ScatterND", 18, "reduction", "min"},
    {"Swish", 24},
};

bool Has(const Node& node, const Birth& birth) {
  if (birth.op != node.op) return false;
  if (birth.input >= 0) {
    return birth.input < std::ssize(node.inputs) && node.inputs[birth.input].valid();
  }
  const AttrValue* attr = node.attrs.Find(birth.attr);
  if (birth.attr.empty() || birth.value.empty()) return birth.attr.empty() || attr != nullptr;
  const auto* text = attr != nullptr ? std::get_if<std::string>(attr) : nullptr;
  return text != nullptr && *text == birth.value;
}

bool NamesTypes(const AttrSpec& spec) {
  return spec.kind == AttrKind::kString && !spec.choices.empty() &&
         ParseDType(spec.choices[0]).has_value();
}

// --- Attributes --------------------------------------------------------------------------------

// The kinds that our schema tells apart better than the value does: 1 may be a float, {} a list of
// anything.
struct AttributeWriter {
  const AttrSpec* spec;  // null: of no known op
  onnx::AttributeProto& proto;

  bool Is(AttrKind kind) const { return spec != nullptr && spec->kind == kind; }

  void operator()(bool value) const { (*this)(static_cast<int64_t>(value)); }
  void operator()(int64_t value) const {
    if (Is(AttrKind::kFloat)) return (*this)(static_cast<double>(value));
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(double value) const {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    if (spec != nullptr && NamesTypes(*spec)) {
      return (*this)(int64_t{ToOnnxType(*ParseDType(value))});
    }
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    if (Is(AttrKind::kFloats)) {
      return (*this)(std::vector<double>(values.begin(), values.end()));
    }
    if (Is(AttrKind::kStrings)) return (*this)(std::vector<std::string>());
    proto.set_type(onnx::AttributeProto::INTS);
    proto.mutable_ints()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<double>& values) const {
    proto.set_type(onnx::AttributeProto::FLOATS);
    proto.mutable_floats()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
};

void AddAttribute(const std::string& name, const AttrValue& value, const AttrSpec* spec,
                  onnx::NodeProto& proto) {
  onnx::AttributeProto& attribute = *proto.add_attribute();
  attribute.set_name(name);
  std::visit(AttributeWriter{spec, attribute}, value);
}

const AttrSpec* FindSpec(const OpDef* op, std::string_view name) {
  if (op == nullptr) return nullptr;
  for (const AttrSpec& spec : op->attrs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

// --- What differs from one op to another --------------------------------------------------------

struct NodeExport {
  const Graph& from;
  const Node& node;
  const int64_t opset;
  Attrs attrs;  // of the node; what is left of them becomes attributes
  std::set<std::string>& names;
  onnx::NodeProto& proto;
  onnx::GraphProto& graph;

  void SetInput(int input, std::string_view name, const Tensor& value) {
    while (proto.input_size() < input) proto.add_input("");
    proto.add_input(UniqueValueName(StrCat(node.name, ".", name), names));
    FillTensorProto(proto.input(input), value, *graph.add_initializer());
  }

  // An attribute that is a list of integers in ours and an operand in this opset.
  void IntsToInput(std::string_view attr, int input) {
    const std::vector<int64_t> ints = attrs.Ints(attr);
    attrs.Erase(attr);
    if (ints.empty()) return;
    SetInput(input, attr, Tensor::FromSpan<int64_t>({static_cast<int64_t>(ints.size())}, ints));
  }
};

void ReductionAxes(NodeExport& e) {
  if (e.opset >= 18) e.IntsToInput("axes", 1);
}

void SplitParts(NodeExport& e) {
  if (e.opset >= 18 && e.proto.input_size() < 2) {
    e.attrs.Set("num_outputs", static_cast<int64_t>(e.node.outputs.size()));
  }
}

void GridSampleMode(NodeExport& e) {
  if (e.opset < 20) return;
  const std::string mode = e.attrs.String("mode", "bilinear");
  e.attrs.Set("mode", std::string(mode == "bilinear"  ? "linear"
                                  : mode == "bicubic" ? "cubic"
                                                      : mode));
}

void DftAxis(NodeExport& e) {
  if (e.opset < 20) return;
  e.SetInput(2, "axis", Tensor::Scalar(e.attrs.Int("axis", 1)));
  e.attrs.Erase("axis");
}

// A whole number here, a float there.
void Seed(NodeExport& e) { e.attrs.Set("seed", static_cast<double>(e.attrs.Int("seed", 0))); }

void ConstantOfShape(NodeExport& e) {
  Tensor value = Tensor::Zeros({*ParseDType(e.attrs.String("dtype", "f32")), Shape{1}});
  value.Set(0, e.attrs.Float("value", 0));
  e.attrs = Attrs();
  onnx::AttributeProto& attribute = *e.proto.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  FillTensorProto("", value, *attribute.mutable_t());
}

// Others do not read the size off the weights.
void HiddenSize(NodeExport& e) {
  const Shape& recurrence = e.from.value(e.node.inputs[2]).type.shape;
  e.attrs.Set("hidden_size", recurrence[recurrence.rank() - 1]);
}

// When it trains, all three results are there.
void TrainingResults(NodeExport& e) {
  if (!e.attrs.Bool("training_mode", false)) return;
  while (e.proto.output_size() < 3) e.proto.add_output("");
  for (std::string& output : *e.proto.mutable_output()) {
    if (output.empty()) output = UniqueValueName(StrCat(e.node.name, ".unused"), e.names);
  }
}

struct ExportRule {
  std::string_view op;
  void (*change)(NodeExport& node);
};
constexpr ExportRule kExportRules[] = {
    {"BatchNormalization", TrainingResults},
    {"Bernoulli", Seed},
    {"ConstantOfShape", ConstantOfShape},
    {"DFT", DftAxis},
    {"GRU", HiddenSize},
    {"GridSample", GridSampleMode},
    {"LSTM", HiddenSize},
    {"Multinomial", Seed},
    {"RNN", HiddenSize},
    {"RandomNormal", Seed},
    {"RandomNormalLike", Seed},
    {"RandomUniform", Seed},
    {"RandomUniformLike", Seed},
    {"ReduceL1", ReductionAxes},
    {"ReduceL2", ReductionAxes},
    {"ReduceLogSum", ReductionAxes},
    {"ReduceLogSumExp", ReductionAxes},
    {"ReduceMax", ReductionAxes},
    {"ReduceMean", ReductionAxes},
    {"ReduceMin", ReductionAxes},
    {"ReduceProd", ReductionAxes},
    {"ReduceSumSquare", ReductionAxes},
    {"Split", SplitParts},
};

}  // namespace

int64_t OpsetNeeded(const Graph& graph) {
  int64_t opset = 17;
  for (const Graph* each : FlattenGraphs(graph)) {
    for (const Node& node : each->nodes) {
      for (const Birth& birth : kYoung) {
        if (Has(node, birth)) opset = std::max(opset, birth.opset);
      }
    }
  }
  return opset;
}

std::string OnnxDomainOf(const std::string& op) {
  const size_t dot = op.find('.');
  return dot == std::string::npos ? "" : StrCat("millrace.", op.substr(0, dot));
}

std::string UniqueValueName(const std::string& name, std::set<std::string>& names) {
  std::string unique = name;
  for (int i = 1; !names.insert(unique).second; ++i) unique = StrCat(name, "_", i);
  return unique;
}

void FillNodeProto(const Graph& from, const Node& node, int64_t opset, std::set<std::string>& names,
                   onnx::NodeProto& proto, onnx::GraphProto& graph) {
  const OpDef* op = FindOp(node.op);
  const size_t dot = node.op.find('.');
  proto.set_name(node.name);
  proto.set_domain(OnnxDomainOf(node.op));
  proto.set_op_type(dot == std::string::npos ? node.op : node.op.substr(dot + 1));
  NodeExport e{from, node, opset, node.attrs, names, proto, graph};
  e.attrs.Erase("num_captures");  // bodies see what is around them
  for (const ExportRule& rule : kExportRules) {
    if (rule.op == node.op) rule.change(e);
  }
  for (const auto& [name, value] : e.attrs) {
    AddAttribute(name, value, FindSpec(op, name), proto);
  }
}

}  // namespace millrace
