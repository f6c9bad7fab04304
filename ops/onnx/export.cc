// Writing a model. Weights are not copied into protobuf messages: all but they are serialized, and
// the bytes around each are spelled by hand, so that the file is written from where they lie.
//
// Bodies are closed in our graphs and open in ONNX: an input of a body goes by the name of the
// value that is passed for it, and names are unique in the whole model, because ONNX bodies may not
// hide names around them.
#include <deque>
#include <set>

#include "graph/files.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "ops/onnx/export_node.h"
#include "ops/onnx/onnx.h"
#include "ops/onnx/tensor_proto.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// An initializer of the outermost graph whose data are not in its message yet.
struct Weight {
  onnx::TensorProto proto;
  Tensor data;
};

struct ModelExport {
  int64_t opset = 17;
  bool symbolic = false;  // dims depend on symbols, so types of results hold for one binding only
  std::set<std::string> names;  // of values, in all graphs
  std::set<std::string> domains;
  std::vector<Weight> weights;

  std::string UniqueName(const std::string& name) { return UniqueValueName(name, names); }
};

class GraphExporter {
 public:
  GraphExporter(const Graph& graph, ModelExport& model, onnx::GraphProto& proto)
      : g_(graph), model_(model), proto_(proto), names_(graph.values.size()), store_(graph) {}

  absl::Status ExportOutermost() {
    proto_.set_name(g_.name.empty() ? "graph" : g_.name);
    for (const ValueId id : g_.inputs) AddInput(id);
    for (const auto* ids : {&g_.params, &g_.constants}) {
      for (const ValueId id : *ids) {
        names_[id.index] = model_.UniqueName(g_.value(id).name);
        MILLRACE_ASSIGN_OR_RETURN(Tensor data, store_.Get(id));
        Weight& weight = model_.weights.emplace_back();
        weight.proto.set_name(names_[id.index]);
        weight.proto.set_data_type(ToOnnxType(data.dtype()));
        for (const int64_t dim : data.shape().dims()) weight.proto.add_dims(dim);
        weight.data = std::move(data);
      }
    }
    MILLRACE_RETURN_IF_ERROR(AddNodes());
    for (const ValueId id : g_.outputs) {
      proto_.add_output()->set_name(names_[id.index]);
      DescribeResult(id, *proto_.mutable_output(proto_.output_size() - 1));
    }
    return absl::OkStatus();
  }

  // `own_inputs` inputs come from the op, the rest are the values named in `captures`.
  absl::Status ExportBody(const std::string& name, size_t own_inputs,
                          const std::vector<std::string>& captures) {
    proto_.set_name(name);
    for (size_t i = 0; i < g_.inputs.size(); ++i) {
      if (i < own_inputs) {
        AddInput(g_.inputs[i]);
      } else {
        names_[g_.inputs[i].index] = captures[i - own_inputs];
      }
    }
    for (const ValueId id : g_.constants) {
      names_[id.index] = model_.UniqueName(g_.value(id).name);
      MILLRACE_ASSIGN_OR_RETURN(const Tensor data, store_.Get(id));
      FillTensorProto(names_[id.index], data, *proto_.add_initializer());
    }
    MILLRACE_RETURN_IF_ERROR(AddNodes());
    for (const ValueId id : g_.outputs) {
      std::string output = names_[id.index];
      if (g_.value(id).kind != ValueKind::kResult) {  // ONNX bodies give back what their nodes make
        onnx::NodeProto& identity = *proto_.add_node();
        identity.set_op_type("Identity");
        identity.add_input(output);
        output = model_.UniqueName(output);
        identity.add_output(output);
      }
      proto_.add_output()->set_name(output);
      DescribeResult(id, *proto_.mutable_output(proto_.output_size() - 1));
    }
    return absl::OkStatus();
  }

 private:
  void AddInput(ValueId id) {
    const Value& value = g_.value(id);
    names_[id.index] = model_.UniqueName(value.name);
    onnx::ValueInfoProto& input = *proto_.add_input();
    input.set_name(names_[id.index]);
    if (const auto doc = g_.docs.find(id); doc != g_.docs.end()) input.set_doc_string(doc->second);
    auto& tensor = *input.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(ToOnnxType(value.type.dtype));
    const auto dims = g_.symbolic_dims.find(id);
    tensor.mutable_shape();  // of rank 0, unless dims follow
    for (int d = 0; d < value.type.shape.rank(); ++d) {
      auto& dim = *tensor.mutable_shape()->add_dim();
      const std::string text = dims == g_.symbolic_dims.end() ? "" : dims->second[d];
      if (text.empty() || (text[0] >= '0' && text[0] <= '9')) {
        dim.set_dim_value(value.type.shape[d]);
      } else {
        dim.set_dim_param(text);
      }
    }
  }

  // Dims are left open where they are known only at run time, or for one binding of the symbols.
  void DescribeResult(ValueId id, onnx::ValueInfoProto& info) const {
    const Value& value = g_.value(id);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(ToOnnxType(value.type.dtype));
    tensor.mutable_shape();
    for (const int64_t dim : value.type.shape.dims()) {
      auto& to = *tensor.mutable_shape()->add_dim();
      if (!value.bounded && !model_.symbolic) to.set_dim_value(dim);
    }
  }

  absl::Status AddNodes() {
    for (const Node& node : g_.nodes) {
      MILLRACE_RETURN_IF_ERROR(AddNode(node));
    }
    return absl::OkStatus();
  }

  absl::Status AddNode(const Node& node) {
    model_.domains.insert(OnnxDomainOf(node.op));
    onnx::NodeProto proto;
    for (const ValueId id : node.inputs) proto.add_input(id.valid() ? names_[id.index] : "");
    for (const ValueId id : node.outputs) {
      if (id.valid()) names_[id.index] = model_.UniqueName(g_.value(id).name);
      proto.add_output(id.valid() ? names_[id.index] : "");
    }
    MILLRACE_RETURN_IF_ERROR(AddBodies(node, proto));
    FillNodeProto(g_, node, model_.opset, model_.names, proto, proto_);
    *proto_.add_node() = std::move(proto);
    return absl::OkStatus();
  }

  // The captures go from the node's inputs into the bodies.
  absl::Status AddBodies(const Node& node, onnx::NodeProto& proto) {
    if (node.subgraphs.empty()) return absl::OkStatus();
    const OpDef* op = FindOp(node.op);
    const bool branches = op != nullptr && op->traits.control_flow == ControlFlow::kIf;
    const int64_t count =
        branches ? static_cast<int64_t>(node.inputs.size()) - 1 : node.attrs.Int("num_captures", 0);
    std::vector<std::string> captures;
    for (int64_t i = proto.input_size() - count; i < proto.input_size(); ++i) {
      captures.push_back(proto.input(static_cast<int>(i)));
    }
    proto.mutable_input()->DeleteSubrange(static_cast<int>(proto.input_size() - count),
                                          static_cast<int>(count));
    for (const Subgraph& sub : node.subgraphs) {
      onnx::AttributeProto& attribute = *proto.add_attribute();
      attribute.set_name(sub.name);
      attribute.set_type(onnx::AttributeProto::GRAPH);
      GraphExporter body(sub.graph, model_, *attribute.mutable_g());
      MILLRACE_RETURN_IF_ERROR(body.ExportBody(StrCat(node.name, ".", sub.name),
                                               sub.graph.inputs.size() - count, captures));
    }
    return absl::OkStatus();
  }

  const Graph& g_;
  ModelExport& model_;
  onnx::GraphProto& proto_;
  std::vector<std::string> names_;  // by value
  WeightStore store_;
};

// --- The file ----------------------------------------------------------------------------------

constexpr int64_t kAlignment = 64;  // of tensors in a file of their own

// A field's key and length, as before the bytes of a message.
std::string LengthPrefix(int field, int64_t length) {
  std::string text;
  for (uint64_t value : {static_cast<uint64_t>(field) << 3 | 2, static_cast<uint64_t>(length)}) {
    while (value >= 0x80) {
      text.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    text.push_back(static_cast<char>(value));
  }
  return text;
}

std::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.size_bytes())};
}

// Writes the weights one after another and has their messages say where each lies.
absl::Status WriteExternalData(std::vector<Weight>& weights, const std::string& path) {
  const std::string padding(kAlignment, '\0');
  std::vector<std::string_view> parts;
  int64_t offset = 0;
  for (Weight& weight : weights) {
    const int64_t gap = (kAlignment - offset % kAlignment) % kAlignment;
    parts.push_back(std::string_view(padding).substr(0, gap));
    parts.push_back(BytesOf(weight.data));
    offset += gap;
    weight.proto.set_data_location(onnx::TensorProto::EXTERNAL);
    const std::pair<const char*, std::string> entries[] = {
        {"location", path.substr(path.rfind('/') + 1)},
        {"offset", StrCat(offset)},
        {"length", StrCat(weight.data.size_bytes())}};
    for (const auto& [key, value] : entries) {
      auto& entry = *weight.proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    offset += weight.data.size_bytes();
  }
  return WriteFileAtomically(path, parts);
}

// A file as the parts it is written from, some of which lie in `texts`, others in the weights.
struct ModelBytes {
  std::deque<std::string> texts;
  std::vector<std::string_view> parts;

  void Add(std::string text) { parts.push_back(texts.emplace_back(std::move(text))); }
};

// Everything but the weights' data is in `model`; its graph's fields come first, then the weights.
ModelBytes SpellModel(onnx::ModelProto& model, const std::vector<Weight>& weights, bool with_data) {
  const std::unique_ptr<onnx::GraphProto> graph(model.release_graph());
  std::vector<std::string> headers;  // what stands before each weight's data
  const std::string body = graph->SerializeAsString();
  int64_t graph_bytes = std::ssize(body);
  for (const Weight& weight : weights) {
    const std::string proto = weight.proto.SerializeAsString();
    const int64_t data = with_data ? weight.data.size_bytes() : 0;
    const std::string raw =
        with_data ? LengthPrefix(onnx::TensorProto::kRawDataFieldNumber, data) : "";
    headers.push_back(StrCat(LengthPrefix(onnx::GraphProto::kInitializerFieldNumber,
                                          std::ssize(proto) + std::ssize(raw) + data),
                             proto, raw));
    graph_bytes += std::ssize(headers.back()) + data;
  }
  ModelBytes bytes;
  bytes.Add(model.SerializeAsString());
  bytes.Add(LengthPrefix(onnx::ModelProto::kGraphFieldNumber, graph_bytes));
  bytes.Add(body);
  for (size_t i = 0; i < weights.size(); ++i) {
    bytes.Add(std::move(headers[i]));
    if (with_data) bytes.parts.push_back(BytesOf(weights[i].data));
  }
  return bytes;
}

// The version of the file format that came with an opset.
int64_t IrVersionOf(int64_t opset) {
  return opset > 22 ? 11 : opset > 20 ? 10 : opset > 18 ? 9 : 8;
}

// What ONNX cannot say.
std::vector<std::string> LeftOut(const Graph& graph) {
  int64_t placed = 0, ordered = 0;
  std::set<std::string> own_ops;
  for (const Graph* each : FlattenGraphs(graph)) {
    for (const Node& node : each->nodes) {
      placed += !node.device.empty() || node.stream >= 0;
      ordered += !node.after.empty();
      if (!OnnxDomainOf(node.op).empty()) own_ops.insert(node.op);
    }
  }
  std::vector<std::string> notes;
  if (placed > 0) notes.push_back(StrCat("the placement of ", placed, " nodes"));
  if (ordered > 0) notes.push_back(StrCat("what ", ordered, " nodes run after, beyond data"));
  if (!graph.mesh.axes.empty()) notes.push_back("the mesh and shardings");
  for (const std::string& op : own_ops) {
    notes.push_back(StrCat("the meaning of ", op, ", which other programs do not know"));
  }
  return notes;
}

// All but the weights, which go to `state`.
absl::StatusOr<onnx::ModelProto> BuildModel(const Graph& graph, ModelExport& state) {
  if (!graph.updates.empty()) {
    return BadInputError(StrCat("the graph updates params ('",
                                graph.value(graph.updates[0].param).name,
                                "' first): ONNX models have no state"));
  }
  state.opset = OpsetNeeded(graph);
  state.symbolic = !graph.symbolic_dims.empty();
  state.domains.insert("");
  onnx::ModelProto model;
  GraphExporter exporter(graph, state, *model.mutable_graph());
  MILLRACE_RETURN_IF_ERROR(exporter.ExportOutermost());
  model.set_ir_version(IrVersionOf(state.opset));
  model.set_producer_name("millrace");
  for (const std::string& domain : state.domains) {
    auto& entry = *model.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(domain.empty() ? state.opset : 1);
  }
  return model;
}

bool FitsOneMessage(const std::vector<Weight>& weights) {
  constexpr int64_t kRoomForTheRest = 64 << 20;
  int64_t bytes = 0;
  for (const Weight& weight : weights) bytes += weight.data.size_bytes();
  return bytes <= INT32_MAX - kRoomForTheRest;
}

}  // namespace

absl::StatusOr<std::string> ToOnnx(const Graph& graph) {
  ModelExport state;
  MILLRACE_ASSIGN_OR_RETURN(onnx::ModelProto model, BuildModel(graph, state));
  if (!FitsOneMessage(state.weights)) {
    return UsageError("the weights are larger than a message of protobuf may be, 2 GiB");
  }
  const ModelBytes bytes = SpellModel(model, state.weights, /*with_data=*/true);
  std::string whole;
  for (const std::string_view part : bytes.parts) whole += part;
  return whole;
}

absl::Status ExportOnnx(const Graph& graph, const std::string& path,
                        const OnnxExportOptions& options, std::vector<std::string>* notes) {
  ModelExport state;
  MILLRACE_ASSIGN_OR_RETURN(onnx::ModelProto model, BuildModel(graph, state));
  const bool external = options.external_data || !FitsOneMessage(state.weights);
  if (external) {
    MILLRACE_RETURN_IF_ERROR(WriteExternalData(state.weights, StrCat(path, ".data")));
  }
  if (notes != nullptr) *notes = LeftOut(graph);
  return WriteFileAtomically(path, SpellModel(model, state.weights, !external).parts);
}

}  // namespace millrace
