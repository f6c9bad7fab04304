#include "ops/onnx/model_import.h"

#include <algorithm>

#include "graph/files.h"
#include "graph/strings.h"

namespace millrace {
namespace {

// What functions may expand to: so many nodes, and so many times those in the file.
constexpr int64_t kFreeNodes = 100'000, kMaxExpansion = 32;
constexpr size_t kMaxSymbolName = 64;

std::string PathTo(const OnnxPlace& place) {
  if (place.outer == nullptr) return "";
  std::string path = StrCat(PathTo(*place.outer), "/", place.field);
  if (place.repeated) StrAppend(&path, "/", place.step.index);
  return path;
}

// "unk__7", "batch size" -> a name that --set and graph files take.
std::string SymbolName(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, kMaxSymbolName)) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (name.empty() && digit) name = "n";
    name.push_back(letter || digit ? c : '_');
  }
  return name.empty() ? "n" : name;
}

using Dimension = onnx::TensorShapeProto::Dimension;

bool IsDynamic(const Dimension& dim) { return !dim.has_dim_value() || dim.dim_value() == -1; }

// "?" is how some writers spell that they do not know: no name that two dims share.
std::string DimName(const Dimension& dim, const std::string& input, int d) {
  const bool unnamed = dim.dim_param().empty() || dim.dim_param() == "?";
  return unnamed ? StrCat(input, "_", d) : dim.dim_param();
}

std::string_view KindOf(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kSequenceType:
      return "a sequence";
    case onnx::TypeProto::kMapType:
      return "a map";
    case onnx::TypeProto::kOptionalType:
      return "an optional";
    case onnx::TypeProto::kSparseTensorType:
      return "a sparse tensor";
    default:
      return "of no known type";
  }
}

// The last string that a message has under a number its schema does not know.
std::string UnknownString(const google::protobuf::Message& message, int number) {
  const google::protobuf::UnknownFieldSet& fields =
      message.GetReflection()->GetUnknownFields(message);
  std::string text;
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() == number &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      text = field.length_delimited();
    }
  }
  return text;
}

std::string Key(std::string_view domain, std::string_view name, std::string_view overload) {
  std::string key = StrCat(domain, ".", name);
  if (!overload.empty()) StrAppend(&key, ":", overload);
  return key;
}

// Fields of ONNX 1.14 and later.
constexpr int kNodeOverload = 8, kFunctionOverload = 13, kFunctionDefaults = 11;

OnnxFunction ReadFunction(const onnx::FunctionProto& proto, int index) {
  OnnxFunction function{index, &proto, {}, ReadOpsets(proto.opset_import())};
  const auto& fields = proto.GetReflection()->GetUnknownFields(proto);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != kFunctionDefaults ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    onnx::AttributeProto attribute;  // not checked by CheckWireFormat: what fails is left out
    if (attribute.ParseFromString(field.length_delimited())) {
      function.defaults.push_back(std::move(attribute));
    }
  }
  return function;
}

}  // namespace

std::string FunctionKey(const onnx::NodeProto& call) {
  return Key(call.domain(), call.op_type(), UnknownString(call, kNodeOverload));
}

std::string FunctionKey(const onnx::FunctionProto& function) {
  return Key(function.domain(), function.name(), UnknownString(function, kFunctionOverload));
}

std::map<std::string, int64_t> ReadOpsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& entries) {
  std::map<std::string, int64_t> opsets;
  for (const auto& entry : entries) {
    opsets[entry.domain() == "ai.onnx" ? "" : entry.domain()] = entry.version();
  }
  return opsets;
}

ModelImport::ModelImport(onnx::ModelProto& the_model, std::string_view the_bytes,
                         const std::string& the_file, const OnnxImportOptions& the_options,
                         Diagnostics& the_diagnostics)
    : model(the_model),
      bytes(the_bytes),
      file(the_file),
      options(the_options),
      diagnostics(the_diagnostics),
      external(DirectoryOf(the_file)),
      opsets(ReadOpsets(the_model.opset_import())),
      nodes_left(kFreeNodes + kMaxExpansion * the_model.graph().node_size()) {
  for (int f = 0; f < model.functions_size(); ++f) {
    nodes_left += kMaxExpansion * model.functions(f).node_size();
    functions.emplace(FunctionKey(model.functions(f)), ReadFunction(model.functions(f), f));
  }
}

int64_t ModelImport::OffsetOf(const OnnxPlace& place) const {
  std::vector<WireStep> steps;
  for (const OnnxPlace* at = &place; at->outer != nullptr; at = at->outer) {
    steps.push_back(at->step);
  }
  std::reverse(steps.begin(), steps.end());
  return millrace::OffsetOf(bytes, steps);
}

void ModelImport::Report(const OnnxPlace& place, std::string message, std::string hint) {
  if (diagnostics.full()) return diagnostics.Add({});  // counted, not shown
  Diagnostic d;
  d.file = file;
  d.offset = OffsetOf(place);
  d.pointer = PathTo(place);
  d.message = std::move(message);
  d.hint = std::move(hint);
  diagnostics.Add(std::move(d));
}

Symbol& ModelImport::SymbolFor(std::string_view text) {
  const std::string name = SymbolName(text);
  const auto [found, fresh] = symbol_index_.emplace(name, symbols.size());
  if (!fresh) return symbols[found->second];
  Symbol& symbol = symbols.emplace_back();
  symbol.name = name;
  const auto given = options.symbols.find(name);
  if (given != options.symbols.end()) symbol.value = given->second;
  return symbol;
}

void ModelImport::BindDims(const onnx::TypeProto& type, const std::string& input,
                           const Shape& shape) {
  const auto& dims = type.tensor_type().shape();
  for (int d = 0; d < std::min(dims.dim_size(), shape.rank()); ++d) {
    if (!IsDynamic(dims.dim(d))) continue;
    Symbol& symbol = SymbolFor(DimName(dims.dim(d), input, d));
    if (symbol.value < 0) symbol.value = shape[d];
  }
}

bool ModelImport::HasOpenSymbols() const {
  return std::any_of(symbols.begin(), symbols.end(),
                     [](const Symbol& symbol) { return symbol.value < 0; });
}

std::optional<TensorType> ReadOnnxType(ModelImport& import, const onnx::TypeProto& type,
                                       const std::string& name, const OnnxPlace& place,
                                       std::vector<std::string>* dims) {
  const auto refuse = [&](std::string_view why, std::string_view hint = "") {
    import.Report(place, StrCat("'", name, "' ", why), std::string(hint));
    return std::nullopt;
  };
  if (!type.has_tensor_type()) {
    return refuse(StrCat("is ", KindOf(type), "; only tensors are supported"));
  }
  const auto& tensor = type.tensor_type();
  const std::optional<DType> dtype = FromOnnxType(tensor.elem_type());
  if (!dtype.has_value()) {
    return refuse(StrCat("has elements of type ", OnnxTypeName(tensor.elem_type()),
                         ", which is not supported"));
  }
  if (!tensor.has_shape()) return refuse("has no shape: its rank must be known");
  if (tensor.shape().dim_size() > kMaxRank) {
    return refuse(
        StrCat("has rank ", tensor.shape().dim_size(), "; at most ", kMaxRank, " is supported"));
  }
  TensorType result{*dtype, {}};
  bool symbolic = false;
  for (int d = 0; d < tensor.shape().dim_size(); ++d) {
    const auto& dim = tensor.shape().dim(d);
    if (!IsDynamic(dim)) {
      if (dim.dim_value() < 0 || dim.dim_value() > kMaxBytes) {
        return refuse(StrCat("has a dim ", d, " of ", dim.dim_value()));
      }
      result.shape.push_back(dim.dim_value());
      dims->push_back(StrCat(dim.dim_value()));
      continue;
    }
    const Symbol& symbol = import.SymbolFor(DimName(dim, name, d));
    result.shape.push_back(symbol.value < 0 ? 1 : symbol.value);
    dims->push_back(symbol.name);
    symbolic = true;
  }
  if (!symbolic) dims->clear();
  if (!CheckedByteSize(result).has_value()) {
    return refuse(StrCat("is too large: ", ToString(result)));
  }
  return result;
}

}  // namespace millrace
