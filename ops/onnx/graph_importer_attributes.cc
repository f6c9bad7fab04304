// Attributes of nodes, the graphs among them, and functions, whose attributes stand for others.
#include <charconv>
#include <cmath>

#include "graph/strings.h"
#include "ops/onnx/graph_importer.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

using Attribute = onnx::AttributeProto;

constexpr int kMaxNesting = 31;   // of bodies; what graph/verify.cc allows
constexpr size_t kMaxCalls = 64;  // of functions that call functions

// Old files leave the type out: the field that is there tells it.
Attribute::AttributeType TypeOf(const Attribute& attribute) {
  if (attribute.type() != Attribute::UNDEFINED) return attribute.type();
  if (attribute.has_f()) return Attribute::FLOAT;
  if (attribute.has_i()) return Attribute::INT;
  if (attribute.has_s()) return Attribute::STRING;
  if (attribute.has_t()) return Attribute::TENSOR;
  if (attribute.has_g()) return Attribute::GRAPH;
  if (attribute.floats_size() > 0) return Attribute::FLOATS;
  if (attribute.ints_size() > 0) return Attribute::INTS;
  if (attribute.strings_size() > 0) return Attribute::STRINGS;
  return Attribute::UNDEFINED;
}

// The double that an author meant by a float: 1e-5 and not 9.99999974738e-06, which rounds to the
// same float. So what is exported comes back as it was.
double AsWritten(float value) {
  if (!std::isfinite(value)) return value;
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  double result = value;
  std::from_chars(text, end.ptr, result);
  return result;
}

std::vector<double> AsWritten(const google::protobuf::RepeatedField<float>& values) {
  std::vector<double> result;
  for (const float value : values) result.push_back(AsWritten(value));
  return result;
}

}  // namespace

void GraphImporter::ReadAttributes(onnx::NodeProto& proto, const OnnxPlace& place, OnnxNode& node) {
  for (int a = 0; a < proto.attribute_size(); ++a) {
    const OnnxPlace at{&place, "attribute", {onnx::NodeProto::kAttributeFieldNumber, a}, true};
    Attribute& attribute = *proto.mutable_attribute(a);
    if (attribute.name().empty()) {
      import_.Report(at, "an attribute has no name");
      continue;
    }
    if (node.attrs.Find(attribute.name()) != nullptr || node.tensors.contains(attribute.name())) {
      import_.Report(at, StrCat("attribute '", attribute.name(), "' is given twice"));
      continue;
    }
    if (!attribute.ref_attr_name().empty()) {
      const auto bound = scope_.attributes.find(attribute.ref_attr_name());
      if (bound == scope_.attributes.end()) continue;  // not given: its default holds
      Attribute copy = *bound->second;
      ReadAttribute(attribute.name(), copy, at, node);
    } else if (calls_.empty()) {
      ReadAttribute(attribute.name(), attribute, at, node);
    } else {  // a function may be expanded again
      Attribute copy = attribute;
      ReadAttribute(attribute.name(), copy, at, node);
    }
  }
}

void GraphImporter::ReadAttribute(const std::string& name, Attribute& attribute,
                                  const OnnxPlace& place, OnnxNode& node) {
  const auto take = [&](absl::StatusOr<Tensor> tensor) {
    if (tensor.ok()) {
      node.tensors[name] = *std::move(tensor);
    } else {
      import_.Report(
          place, StrCat(node.op, ": attribute '", name, "': ", StdView(tensor.status().message())));
    }
  };
  switch (TypeOf(attribute)) {
    case Attribute::FLOAT:
      return node.attrs.Set(name, AsWritten(attribute.f()));
    case Attribute::INT:
      return node.attrs.Set(name, attribute.i());
    case Attribute::STRING:
      return node.attrs.Set(name, attribute.s());
    case Attribute::FLOATS:
      return node.attrs.Set(name, AsWritten(attribute.floats()));
    case Attribute::INTS:
      return node.attrs.Set(name,
                            std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end()));
    case Attribute::STRINGS:
      return node.attrs.Set(
          name, std::vector<std::string>(attribute.strings().begin(), attribute.strings().end()));
    case Attribute::TENSOR:
      return take(TakeTensor(*attribute.mutable_t(), import_.external));
    case Attribute::SPARSE_TENSOR:
      return take(TakeSparseTensor(*attribute.mutable_sparse_tensor(), import_.external));
    case Attribute::GRAPH:
      return ReadBody(name, *attribute.mutable_g(),
                      {&place, "g", {Attribute::kGFieldNumber, 0}, false}, node);
    default:
      import_.Report(place, StrCat(node.op, ": attribute '", name, "' is of a kind that is not ",
                                   "supported (type ", attribute.type(), ")"));
  }
}

void GraphImporter::ReadBody(const std::string& name, onnx::GraphProto& proto,
                             const OnnxPlace& place, OnnxNode& node) {
  if (depth_ >= kMaxNesting) {
    return import_.Report(place, StrCat("graphs are nested more than ", kMaxNesting, " deep"));
  }
  TypedBuilder builder(name);
  builder.SetSizesHold(scope_.builder->sizes_hold());
  OnnxScope scope;
  scope.around = &scope_;
  scope.builder = &builder;
  scope.in_body = true;
  scope.attributes = scope_.attributes;
  scope.opsets = scope_.opsets;
  GraphImporter body(import_, scope, depth_ + 1, calls_);
  for (int i = 0; i < proto.input_size(); ++i) {
    const OnnxPlace at{&place, "input", {onnx::GraphProto::kInputFieldNumber, i}, true};
    const onnx::ValueInfoProto& input = proto.input(i);
    // Types follow from what the node passes in; what the file says of them is often incomplete.
    const ValueId value = builder.Input(input.name(), TensorType());
    builder.graph().value(value).typed = false;
    body.Define(input.name(), value, at);
  }
  body.ReadInitializers(proto, place);
  if (body.ReadNodes(*proto.mutable_node(), onnx::GraphProto::kNodeFieldNumber, place)) {
    body.ReadOutputs(proto, place);
  }
  Subgraph& sub = node.subgraphs.emplace_back();
  sub.name = name;
  sub.graph = std::move(builder).Build();
  body_captures_.push_back(std::move(scope.captures));
}

// Of an If whose condition is known, the nodes of the branch that is taken, in place of the If: the
// other branch is often wrong for the sizes at hand. False when it is no such node.
bool GraphImporter::ReadBranch(onnx::NodeProto& proto, const OnnxNode& node,
                               const OnnxPlace& place) {
  const OpDef* op = proto.domain().empty() ? FindOp(proto.op_type()) : nullptr;
  if (op == nullptr || op->traits.control_flow != ControlFlow::kIf || node.inputs.size() != 1 ||
      !node.inputs[0].valid()) {
    return false;
  }
  const std::optional<Tensor> condition = scope_.builder->Known(node.inputs[0]);
  if (!condition.has_value() || condition->num_elements() != 1) return false;
  const std::string& taken = op->subgraphs[condition->AsInt64(0) != 0 ? 0 : 1];
  for (int a = 0; a < proto.attribute_size(); ++a) {
    Attribute& attribute = *proto.mutable_attribute(a);
    if (attribute.name() != taken || !attribute.has_g() ||
        attribute.g().output_size() < static_cast<int>(node.outputs.size())) {
      continue;
    }
    const OnnxPlace at{&place, "attribute", {onnx::NodeProto::kAttributeFieldNumber, a}, true};
    const OnnxPlace body{&at, "g", {Attribute::kGFieldNumber, 0}, false};
    if (calls_.empty()) {
      ExpandBranch(NameOfCall(proto), *attribute.mutable_g(), node.outputs, body);
    } else {  // a function may be expanded again
      onnx::GraphProto copy = attribute.g();
      ExpandBranch(NameOfCall(proto), copy, node.outputs, body);
    }
    return true;
  }
  return false;
}

void GraphImporter::ExpandBranch(const std::string& name, onnx::GraphProto& graph,
                                 const std::vector<std::string>& outputs, const OnnxPlace& place) {
  OnnxScope scope;
  scope.around = &scope_;
  scope.builder = scope_.builder;
  scope.in_body = scope_.in_body;
  scope.attributes = scope_.attributes;
  scope.opsets = scope_.opsets;
  scope.prefix = StrCat(name, "/");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    scope.renamed[graph.output(static_cast<int>(i)).name()] = VisibleName(outputs[i]);
  }
  GraphImporter branch(import_, scope, depth_, calls_);
  branch.ReadInitializers(graph, place);
  branch.ReadNodes(*graph.mutable_node(), onnx::GraphProto::kNodeFieldNumber, place);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    const auto value = branch.Use(graph.output(static_cast<int>(i)).name(), place);
    Define(outputs[i], value.value_or(ValueId()), place);
  }
}

// --- Functions ---------------------------------------------------------------------------------

// The name of a call, as those of its function's nodes begin with it.
std::string GraphImporter::NameOfCall(const onnx::NodeProto& call) const {
  if (!call.name().empty()) return StrCat(scope_.prefix, call.name());
  return call.output_size() > 0 ? VisibleName(call.output(0)) : call.op_type();
}

bool GraphImporter::CanExpand(const OnnxFunction& function, const onnx::NodeProto& call,
                              const OnnxNode& node, const OnnxPlace& place) {
  const onnx::FunctionProto& proto = *function.proto;
  const std::string described = StrCat(node.op, " '", NameOfCall(call), "'");
  const bool recursive = std::find(calls_.begin(), calls_.end(), &function) != calls_.end();
  if (recursive || calls_.size() >= kMaxCalls) {
    std::string way;
    for (size_t i = calls_.size() - std::min<size_t>(calls_.size(), 8); i < calls_.size(); ++i) {
      StrAppend(&way, "'", calls_[i]->proto->name(), "' -> ");
    }
    import_.Report(place, StrCat(described,
                                 recursive ? ": a function calls itself: "
                                           : StrCat(": functions call functions more than ",
                                                    kMaxCalls, " deep: "),
                                 way, "'", proto.name(), "'"));
    return false;
  }
  if (static_cast<int>(node.inputs.size()) <= proto.input_size() &&
      static_cast<int>(node.outputs.size()) <= proto.output_size()) {
    return true;
  }
  import_.Report(
      place, StrCat(described, ": function '", proto.name(), "' has ", proto.input_size(),
                    " inputs and ", proto.output_size(), " outputs, the node ", node.inputs.size(),
                    " and ", node.outputs.size()));
  return false;
}

OnnxScope GraphImporter::ScopeOfCall(const OnnxFunction& function, const onnx::NodeProto& call,
                                     const OnnxNode& node) const {
  OnnxScope scope;  // with nothing around it: a function sees its operands only
  scope.builder = scope_.builder;
  scope.in_body = scope_.in_body;
  scope.prefix = StrCat(NameOfCall(call), "/");
  scope.opsets = function.opsets.empty() ? nullptr : &function.opsets;
  for (int i = 0; i < function.proto->input_size(); ++i) {
    const bool given = i < static_cast<int>(node.inputs.size());
    scope.values[function.proto->input(i)] = given ? node.inputs[i] : ValueId();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    scope.renamed[function.proto->output(static_cast<int>(i))] = VisibleName(node.outputs[i]);
  }
  for (const Attribute& attribute : function.defaults) {
    scope.attributes[attribute.name()] = &attribute;
  }
  for (const Attribute& attribute : call.attribute()) {
    const Attribute* bound = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      const auto outer = scope_.attributes.find(attribute.ref_attr_name());
      if (outer == scope_.attributes.end()) continue;
      bound = outer->second;
    }
    scope.attributes[attribute.name()] = bound;
  }
  return scope;
}

// The nodes of a function in place of a node that calls it.
void GraphImporter::Expand(const OnnxFunction& function, const onnx::NodeProto& call, OnnxNode node,
                           const OnnxPlace& place) {
  const auto give_up = [&] {  // what reads the results is not at fault
    for (const std::string& output : node.outputs) {
      if (!output.empty()) Define(output, scope_.builder->NewResult(VisibleName(output)), place);
    }
  };
  if (!CanExpand(function, call, node, place)) return give_up();
  OnnxScope scope = ScopeOfCall(function, call, node);
  const OnnxPlace model;
  const OnnxPlace body{
      &model, "functions", {onnx::ModelProto::kFunctionsFieldNumber, function.index}, true};
  calls_.push_back(&function);
  GraphImporter importer(import_, scope, depth_, calls_);
  // Its nodes are not changed: while functions are expanded, all that would be moved is copied.
  const bool read =
      importer.ReadNodes(*import_.model.mutable_functions(function.index)->mutable_node(),
                         onnx::FunctionProto::kNodeFieldNumber, body);
  calls_.pop_back();
  if (!read) return give_up();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const auto value = importer.Use(function.proto->output(static_cast<int>(i)), body);
    if (value.has_value()) Define(node.outputs[i], *value, place);
  }
}

}  // namespace millrace
