#include "graph/builder.h"

#include "absl/strings/ascii.h"
#include "graph/strings.h"

namespace millrace {

GraphBuilder::GraphBuilder(std::string name) { graph_.name = std::move(name); }

GraphBuilder::GraphBuilder(Graph graph) : graph_(std::move(graph)) {
  for (const Value& v : graph_.values) value_names_.insert(v.name);
  for (const Node& n : graph_.nodes) node_names_.insert(n.name);
}

namespace {

// `name`, or with the first free suffix "_1", "_2", ...; amortized O(1) per call.
std::string Unique(std::string_view name, absl::flat_hash_set<std::string>& taken,
                   absl::flat_hash_map<std::string, int64_t>& next_suffix) {
  std::string unique(name);
  while (!taken.insert(unique).second) {
    unique = StrCat(name, "_", ++next_suffix[std::string(name)]);
  }
  return unique;
}

}  // namespace

std::string GraphBuilder::UniqueValueName(std::string_view name) {
  return Unique(name, value_names_, next_suffix_);
}

std::string GraphBuilder::UniqueNodeName(std::string_view name) {
  return Unique(name, node_names_, next_suffix_);
}

ValueId GraphBuilder::AddValue(std::string_view name, ValueKind kind) {
  Value value;
  value.name = UniqueValueName(name);
  value.kind = kind;
  graph_.values.push_back(std::move(value));
  return ValueId(graph_.values.size() - 1);
}

ValueId GraphBuilder::Input(std::string_view name, const TensorType& type) {
  const ValueId id = AddValue(name, ValueKind::kInput);
  graph_.value(id).type = type;
  graph_.value(id).typed = true;
  graph_.inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::Param(std::string_view name, const TensorType& type, DataSource data,
                            bool trainable) {
  const ValueId id = AddValue(name, ValueKind::kParam);
  Value& value = graph_.value(id);
  value.type = type;
  value.typed = true;
  value.trainable = trainable;
  value.data = static_cast<int32_t>(graph_.data.size());
  graph_.data.push_back(std::move(data));
  graph_.params.push_back(id);
  return id;
}

ValueId GraphBuilder::Constant(std::string_view name, Tensor tensor) {
  const ValueId id = AddValue(name, ValueKind::kConstant);
  Value& value = graph_.value(id);
  value.type = tensor.type();
  value.typed = true;
  value.data = static_cast<int32_t>(graph_.data.size());
  graph_.data.push_back(InlineData(std::move(tensor)));
  graph_.constants.push_back(id);
  return id;
}

ValueId GraphBuilder::NewResult(std::string_view name) {
  return AddValue(name, ValueKind::kResult);
}

Node& GraphBuilder::AddNode(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                            std::string_view name, int num_outputs) {
  const NodeId id(graph_.nodes.size());
  Node node;
  node.name =
      UniqueNodeName(name.empty() ? absl::AsciiStrToLower(AbslView(op)) : std::string(name));
  node.op = std::string(op);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  for (int i = 0; i < num_outputs; ++i) {
    const ValueId out = NewResult(i == 0 ? node.name : StrCat(node.name, ".", i));
    graph_.value(out).producer = id;
    graph_.value(out).result_index = i;
    node.outputs.push_back(out);
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

ValueId GraphBuilder::Op(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                         std::string_view name) {
  return AddNode(op, std::move(inputs), std::move(attrs), name).outputs[0];
}

void GraphBuilder::Output(ValueId value) { graph_.outputs.push_back(value); }

void GraphBuilder::AddUpdate(ValueId param, ValueId value) {
  graph_.updates.push_back({param, value});
}

DataSource InlineData(Tensor tensor) {
  DataSource source;
  source.kind = DataSource::Kind::kInline;
  source.tensor = std::move(tensor);
  return source;
}

DataSource InitData(const Init& init) {
  DataSource source;
  source.kind = DataSource::Kind::kInit;
  source.init = init;
  return source;
}

}  // namespace millrace
