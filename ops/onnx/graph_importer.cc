#include "ops/onnx/graph_importer.h"

#include "graph/strings.h"
#include "ops/onnx/node_sequence.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// Constants up to this size are repeated in bodies that use them; larger ones are passed in.
constexpr int64_t kMaxRepeatedElements = 1024;

// "Gemm 'fc1'", or by the first result where the node has no name.
std::string Describe(const onnx::NodeProto& node) {
  const std::string& name =
      node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return StrCat(node.op_type(), " '", name, "'");
}

}  // namespace

// --- Names -------------------------------------------------------------------------------------

std::string GraphImporter::VisibleName(const std::string& name) const {
  const auto found = scope_.renamed.find(name);
  return found != scope_.renamed.end() ? found->second : StrCat(scope_.prefix, name);
}

void GraphImporter::Define(const std::string& name, ValueId value, const OnnxPlace& place) {
  const bool fresh =
      !scope_.initializers.contains(name) && scope_.values.emplace(name, value).second;
  if (!fresh) import_.Report(place, StrCat("'", name, "' is defined twice"));
}

// Weights are state that training may change; what shapes are computed with is not.
ValueId GraphImporter::Materialize(OnnxScope& scope, const std::string& name, Tensor tensor) {
  const bool is_weight = IsFloat(tensor.dtype()) && tensor.shape().rank() > 0;
  if (scope.in_body || !is_weight) return scope.builder->Constant(name, std::move(tensor));
  const TensorType type = tensor.type();
  return scope.builder->Param(name, type, InlineData(std::move(tensor)));
}

// nullopt: nothing has that name.
std::optional<ValueId> GraphImporter::Find(OnnxScope& scope, const std::string& name) {
  const auto value = scope.values.find(name);
  if (value != scope.values.end()) return value->second;
  const auto initializer = scope.initializers.find(name);
  if (initializer != scope.initializers.end()) {
    const ValueId id = Materialize(scope, name, std::move(initializer->second));
    scope.initializers.erase(initializer);
    scope.values.emplace(name, id);
    return id;
  }
  if (scope.around == nullptr) return std::nullopt;
  const std::optional<ValueId> outside = Find(*scope.around, name);
  if (!outside.has_value() || !outside->valid()) return outside;
  if (scope.builder == scope.around->builder) return outside;  // a branch in place of its If
  scope.around->builder->TypeOf(*outside);  // what is typed outside is typed inside
  const Value& source = scope.around->builder->graph().value(*outside);
  ValueId inside;
  if (source.kind == ValueKind::kConstant &&
      NumElements(source.type.shape) <= kMaxRepeatedElements) {
    inside = scope.builder->Constant(source.name,
                                     *ConstantTensor(scope.around->builder->graph(), *outside));
  } else {
    inside = scope.builder->Input(source.name, source.type);
    scope.builder->graph().value(inside).typed = source.typed;
    scope.captures.emplace_back(*outside, inside);
  }
  scope.values.emplace(name, inside);
  return inside;
}

std::optional<ValueId> GraphImporter::Use(const std::string& name, const OnnxPlace& place) {
  const std::optional<ValueId> found = Find(scope_, name);
  if (found.has_value()) return found;
  std::string hint;
  if (!import_.diagnostics.full()) {
    std::vector<std::string> known;
    for (OnnxScope* scope = &scope_; scope != nullptr; scope = scope->around) {
      for (const auto& [other, value] : scope->values) known.push_back(other);
      for (const auto& [other, tensor] : scope->initializers) known.push_back(other);
    }
    std::sort(known.begin(), known.end());
    hint = DidYouMean(name, known);
  }
  import_.Report(place, StrCat("there is no value '", name, "'"), hint);
  return std::nullopt;
}

// --- Initializers, nodes, outputs ---------------------------------------------------------------

void GraphImporter::ReadInitializers(onnx::GraphProto& graph, const OnnxPlace& place) {
  const auto add = [&](const std::string& name, absl::StatusOr<Tensor> tensor,
                       const OnnxPlace& at) {
    if (!tensor.ok()) {
      import_.Report(at, StrCat("initializer '", name, "': ", StdView(tensor.status().message())));
      return;
    }
    if (name.empty()) return import_.Report(at, "an initializer has no name");
    if (scope_.values.contains(name)) return;  // an input that the caller bound
    if (!scope_.initializers.emplace(name, *std::move(tensor)).second) {
      import_.Report(at, StrCat("'", name, "' is defined twice"));
    }
  };
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const OnnxPlace at{&place, "initializer", {onnx::GraphProto::kInitializerFieldNumber, i}, true};
    onnx::TensorProto& proto = *graph.mutable_initializer(i);
    add(proto.name(), TakeTensor(proto, import_.external), at);
  }
  for (int i = 0; i < graph.sparse_initializer_size(); ++i) {
    const OnnxPlace at{
        &place, "sparse_initializer", {onnx::GraphProto::kSparseInitializerFieldNumber, i}, true};
    onnx::SparseTensorProto& proto = *graph.mutable_sparse_initializer(i);
    add(proto.values().name(), TakeSparseTensor(proto, import_.external), at);
  }
}

bool GraphImporter::ReadNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int field,
                              const OnnxPlace& place) {
  const absl::StatusOr<std::vector<int>> order = NodeSequence(nodes);
  if (!order.ok()) {
    import_.Report(place, std::string(StdView(order.status().message())));
    return false;
  }
  for (const int n : *order) ReadNode(nodes[n], {&place, "node", {field, n}, true});
  return true;
}

void GraphImporter::ReadOutputs(const onnx::GraphProto& graph, const OnnxPlace& place) {
  for (int i = 0; i < graph.output_size(); ++i) {
    const OnnxPlace at{&place, "output", {onnx::GraphProto::kOutputFieldNumber, i}, true};
    const std::optional<ValueId> value = Use(graph.output(i).name(), at);
    if (!value.has_value()) continue;
    TypedBuilder& builder = *scope_.builder;
    const std::vector<ValueId>& outputs = builder.graph().outputs;
    const bool repeated = std::find(outputs.begin(), outputs.end(), *value) != outputs.end();
    builder.Output(repeated ? builder.Op("Identity", {*value}) : *value);
  }
}

// --- One node ----------------------------------------------------------------------------------

void GraphImporter::ReadNode(onnx::NodeProto& proto, const OnnxPlace& place) {
  if (import_.nodes_left < 0) return;
  if (--import_.nodes_left < 0) {
    return import_.Report(place, "functions expand to too many nodes");
  }
  OnnxNode node;
  const std::string domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  node.op = domain.empty() ? proto.op_type() : StrCat(domain, ".", proto.op_type());
  if (domain.starts_with("millrace.")) node.op.erase(0, domain.find('.') + 1);
  if (!proto.name().empty()) node.name = StrCat(scope_.prefix, proto.name());
  const auto& opsets = scope_.opsets != nullptr ? *scope_.opsets : import_.opsets;
  const auto opset = opsets.find(domain);
  node.opset = opset == opsets.end() ? 1 : opset->second;
  ReadOperands(proto, place, node);
  const auto function = import_.functions.find(FunctionKey(proto));
  const bool known = domain.empty() && FindOp(proto.op_type()) != nullptr;
  if (function != import_.functions.end() && !known) {
    return Expand(function->second, proto, std::move(node), place);
  }
  if (ReadBranch(proto, node, place)) return;
  body_captures_.clear();
  ReadAttributes(proto, place, node);
  PassCaptures(node);
  AddNode(std::move(node), proto, place);
}

void GraphImporter::ReadOperands(const onnx::NodeProto& proto, const OnnxPlace& place,
                                 OnnxNode& node) {
  for (const std::string& name : proto.input()) {
    node.inputs.push_back(name.empty() ? ValueId() : Use(name, place).value_or(ValueId()));
  }
  node.outputs.assign(proto.output().begin(), proto.output().end());
  while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
}

void GraphImporter::AddNode(OnnxNode node, const onnx::NodeProto& proto, const OnnxPlace& place) {
  TypedBuilder& builder = *scope_.builder;
  Conversion c(std::move(node), builder);
  const absl::Status status = Convert(c);
  if (!status.ok()) {
    import_.Report(place, StrCat(Describe(proto), ": ", StdView(status.message())));
  }
  if (!c.values.empty()) {
    for (size_t i = 0; i < std::min(c.values.size(), c.node.outputs.size()); ++i) {
      if (!c.node.outputs[i].empty()) Define(c.node.outputs[i], c.values[i], place);
    }
    return;
  }
  const OpDef* op = FindOp(c.node.op);
  if (op == nullptr) {
    UnsupportedOp& unsupported = import_.unsupported[c.node.op];
    if (unsupported.count++ == 0) {
      unsupported.first_node = Describe(proto);
      unsupported.offset = import_.OffsetOf(place);
    }
  } else {
    for (const int i : op->traits.host_inputs) {
      if (c.HasInput(i)) builder.MakeConstant(c.node.inputs[i]);
    }
  }
  std::string name = c.node.name;
  if (name.empty() && !c.node.outputs.empty()) name = VisibleName(c.node.outputs[0]);
  Node& added = builder.AddNode(c.node.op, c.node.inputs, c.node.attrs, name, 0);
  const NodeId id(builder.graph().nodes.size() - 1);
  added.subgraphs = std::move(c.node.subgraphs);
  if (!scope_.prefix.empty()) added.scope = scope_.prefix.substr(0, scope_.prefix.size() - 1);
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    const std::string& output = c.node.outputs[i];
    ValueId value;
    if (!output.empty()) {
      value = builder.NewResult(VisibleName(output));
      builder.graph().value(value).producer = id;
      builder.graph().value(value).result_index = static_cast<int32_t>(i);
      Define(output, value, place);
    }
    builder.graph().node(id).outputs.push_back(value);
  }
}

// All bodies of a node take the same captures, in the same order, after inputs of their own.
void GraphImporter::PassCaptures(OnnxNode& node) {
  std::vector<ValueId> all;  // outside
  for (const auto& captures : body_captures_) {
    for (const auto& [outside, inside] : captures) {
      if (std::find(all.begin(), all.end(), outside) == all.end()) all.push_back(outside);
    }
  }
  const Graph& around = scope_.builder->graph();
  for (size_t b = 0; b < body_captures_.size(); ++b) {
    const auto& captures = body_captures_[b];
    GraphBuilder body(std::move(node.subgraphs[b].graph));
    std::vector<ValueId>& inputs = body.graph().inputs;
    inputs.resize(inputs.size() - captures.size());
    for (const ValueId outside : all) {
      const auto found = std::find_if(captures.begin(), captures.end(),
                                      [&](const auto& c) { return c.first == outside; });
      if (found != captures.end()) {
        inputs.push_back(found->second);
        continue;
      }
      const ValueId unused = body.Input(around.value(outside).name, around.value(outside).type);
      body.graph().value(unused).typed = around.value(outside).typed;
    }
    node.subgraphs[b].graph = std::move(body).Build();
  }
  node.num_captures = static_cast<int64_t>(all.size());
  node.inputs.insert(node.inputs.end(), all.begin(), all.end());
}

}  // namespace millrace
