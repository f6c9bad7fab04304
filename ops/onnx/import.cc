#include <google/protobuf/io/coded_stream.h>

#include "absl/strings/str_join.h"
#include "graph/files.h"
#include "graph/json_text.h"
#include "graph/strings.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "ops/onnx/graph_importer.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// A message of this type from its wire form; BadInputError with the place of the first fault.
template <typename Message>
absl::StatusOr<Message> ParseMessage(std::string_view bytes, const std::string& file) {
  if (bytes.size() > INT32_MAX) {
    return BadInputError(StrCat(file, ": ", bytes.size(),
                                " bytes; a message of protobuf has at most 2^31 - 1. Larger models "
                                "keep their weights in files of their own (external data)"));
  }
  Diagnostics diagnostics;
  CheckWireFormat(bytes, *Message::descriptor(), file, diagnostics);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxMessageDepth + 1);
  Message message;
  if (!message.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return BadInputError(StrCat(file, ": not an ONNX file"));
  }
  return message;
}

// --- What is wrong with the whole --------------------------------------------------------------

// Kinds of data that Millrace does not have, and what would need them.
std::string_view WhyUnsupported(std::string_view op) {
  if (op.find("Sequence") != op.npos) return " (sequences)";
  if (op.starts_with("Optional")) return " (optionals)";
  if (op.find("String") != op.npos || op == "TfIdfVectorizer" || op == "RegexFullMatch") {
    return " (strings)";
  }
  return "";
}

void ReportUnsupported(ModelImport& import) {
  if (import.unsupported.empty()) return;
  std::vector<std::string> ops;
  const UnsupportedOp* first = nullptr;
  for (const auto& [op, found] : import.unsupported) {
    ops.push_back(StrCat(op, WhyUnsupported(op), " x", found.count));
    if (first == nullptr || found.offset < first->offset) first = &found;
  }
  const size_t count = ops.size();
  Diagnostic d;
  d.file = import.file;
  d.offset = first->offset;
  d.message =
      StrCat(count, count == 1 ? " op is" : " ops are",
             " not supported: ", absl::StrJoin(ops, ", "), "; the first is ", first->first_node);
  if (count == 1) d.hint = DidYouMeanOp(import.unsupported.begin()->first);
  import.diagnostics.Add(std::move(d));
}

void CheckOpsets(ModelImport& import) {
  const auto found = import.opsets.find("");
  if (found == import.opsets.end()) return;
  if (found->second >= 1 && found->second <= kNewestOpset) return;
  const OnnxPlace model;
  import.Report(model,
                StrCat("the model is of opset ", found->second, "; known are 1 to ", kNewestOpset));
}

// Symbols and inputs that the caller names, or does not name.
absl::Status CheckOptions(const ModelImport& import) {
  std::vector<std::string> names, complaints;
  for (const Symbol& symbol : import.symbols) {
    names.push_back(symbol.name);
    if (symbol.value >= 0 || import.options.allow_open_symbols) continue;
    complaints.push_back(StrCat(import.file, ": symbol '", symbol.name,
                                "' has no value; give one with --set ", symbol.name, "=..."));
  }
  for (const auto& [name, value] : import.options.symbols) {
    if (value < 0 || value > kMaxBytes) {
      complaints.push_back(StrCat(import.file, ": --set ", name, "=", value,
                                  " is out of range; expected 0 to 2^48"));
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string hint = DidYouMean(name, names);
    complaints.push_back(StrCat(import.file, ": --set ", name, "=", value,
                                ": the model has no symbol '", name, "'", hint.empty() ? "" : "; ",
                                hint));
  }
  names.clear();
  for (const auto& input : import.model.graph().input()) names.push_back(input.name());
  for (const auto& [name, tensor] : import.options.constants) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string hint = DidYouMean(name, names);
    complaints.push_back(StrCat(import.file, ": the model has no input '", name, "'",
                                hint.empty() ? "" : "; ", hint));
  }
  return complaints.empty() ? absl::OkStatus() : UsageError(absl::StrJoin(complaints, "\n"));
}

// --- The model ---------------------------------------------------------------------------------

// Dims of inputs that the caller gives the data of are those of the data.
void BindConstants(ModelImport& import) {
  for (const onnx::ValueInfoProto& input : import.model.graph().input()) {
    const auto constant = import.options.constants.find(input.name());
    if (constant == import.options.constants.end()) continue;
    import.BindDims(input.type(), input.name(), constant->second.shape());
  }
}

void ReadInputs(ModelImport& import, GraphImporter& importer, OnnxScope& scope,
                const OnnxPlace& place) {
  const onnx::GraphProto& graph = import.model.graph();
  absl::flat_hash_set<std::string> initialized;
  for (const auto& tensor : graph.initializer()) initialized.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) initialized.insert(sparse.values().name());
  for (int i = 0; i < graph.input_size(); ++i) {
    const onnx::ValueInfoProto& input = graph.input(i);
    const OnnxPlace at{&place, "input", {onnx::GraphProto::kInputFieldNumber, i}, true};
    if (initialized.contains(input.name())) continue;  // a default: it holds
    if (input.name().empty()) {
      import.Report(at, "an input has no name");
      continue;
    }
    std::vector<std::string> dims;
    const auto type = ReadOnnxType(import, input.type(), input.name(), at, &dims);
    const auto constant = import.options.constants.find(input.name());
    ValueId id;
    if (constant != import.options.constants.end()) {
      if (type.has_value() && constant->second.type() != *type) {
        import.Report(at,
                      StrCat("input '", input.name(), "' is ", ToString(*type),
                             ", but was given a constant of ", ToString(constant->second.type())));
      }
      id = scope.builder->Constant(input.name(), constant->second);
    } else {
      id = scope.builder->Input(input.name(), type.value_or(TensorType()));
      Graph& ours = scope.builder->graph();
      if (!dims.empty()) ours.symbolic_dims[id] = std::move(dims);
      if (!input.doc_string().empty()) ours.docs[id] = input.doc_string();
    }
    importer.Define(input.name(), id, at);
  }
}

void DescribeModel(ModelImport& import, Graph& graph) {
  graph.file = import.file;
  graph.directory = DirectoryOf(import.file);
  if (graph.directory.empty() && !graph.file.empty()) graph.directory = std::string(".");
  graph.opset["core"] = 17;
  graph.symbols = import.symbols;
  const onnx::ModelProto& model = import.model;
  if (model.producer_name().empty()) return;
  graph.producer = StrCat("{\"name\":", JsonString(model.producer_name()));
  if (!model.producer_version().empty()) {
    StrAppend(&graph.producer, ",\"version\":", JsonString(model.producer_version()));
  }
  StrAppend(&graph.producer, "}");
}

}  // namespace

absl::StatusOr<Graph> ParseOnnx(std::string_view bytes, const std::string& file,
                                const OnnxImportOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(onnx::ModelProto model, ParseMessage<onnx::ModelProto>(bytes, file));
  Diagnostics diagnostics;
  ModelImport import(model, bytes, file, options, diagnostics);
  if (!model.has_graph()) {
    return BadInputError(StrCat(file, ": the file has no graph; is it an ONNX model?"));
  }
  CheckOpsets(import);
  TypedBuilder builder(model.graph().name());
  OnnxScope scope;
  scope.builder = &builder;
  std::vector<const OnnxFunction*> calls;
  GraphImporter importer(import, scope, 0, calls);
  const OnnxPlace root;
  const OnnxPlace place{&root, "graph", {onnx::ModelProto::kGraphFieldNumber, 0}, false};
  BindConstants(import);
  ReadInputs(import, importer, scope, place);
  const absl::Status symbols = CheckOptions(import);
  builder.SetSizesHold(!import.HasOpenSymbols());
  importer.ReadInitializers(*model.mutable_graph(), place);
  if (importer.ReadNodes(*model.mutable_graph()->mutable_node(), onnx::GraphProto::kNodeFieldNumber,
                         place)) {
    importer.ReadOutputs(model.graph(), place);
  }
  if (import.unsupported.empty()) {
    MILLRACE_RETURN_IF_ERROR(symbols);
  }
  ReportUnsupported(import);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());

  Graph graph = std::move(builder).Build();
  DescribeModel(import, graph);
  if (!import.HasOpenSymbols()) InferTypes(graph, diagnostics);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  VerifyGraph(graph, diagnostics);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  return graph;
}

absl::StatusOr<Graph> ImportOnnx(const std::string& path, const OnnxImportOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile file, MapFile(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes.get()), file.size);
  return ParseOnnx(bytes, path, options);
}

absl::StatusOr<Tensor> ReadOnnxTensor(const std::string& path) {
  MILLRACE_ASSIGN_OR_RETURN(const MappedFile file, MapFile(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes.get()), file.size);
  MILLRACE_ASSIGN_OR_RETURN(onnx::TensorProto proto, ParseMessage<onnx::TensorProto>(bytes, path));
  ExternalData external(DirectoryOf(path));
  absl::StatusOr<Tensor> tensor = TakeTensor(proto, external);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

}  // namespace millrace
