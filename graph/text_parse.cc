#include <charconv>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "graph/text_lexer.h"
#include "graph/text_syntax.h"
#include "graph/verify.h"

namespace millrace {
namespace {

// Recursive descent, one method per construct; a nested graph is a nested parser on the same lexer.
class GraphParser {
 public:
  GraphParser(TextLexer& lexer, std::string_view file, int depth) : lex_(lexer), depth_(depth) {
    g_.file = std::string(file);
  }

  // Up to the end of the text, or the "}" that closes a nested graph (left for the caller).
  absl::StatusOr<Graph> Parse() {
    SkipNewlines();
    while (lex_.token().kind != TokenKind::kEnd && !lex_.Is("}")) {
      MILLRACE_RETURN_IF_ERROR(ParseLine());
      if (lex_.token().kind == TokenKind::kEnd || lex_.Is("}")) break;
      if (lex_.token().kind != TokenKind::kNewline)
        return lex_.Error("expected the end of the line");
      SkipNewlines();
    }
    if (!lex_.status().ok()) return lex_.status();
    return std::move(g_);
  }

 private:
  using Status = absl::Status;

  void SkipNewlines() {
    while (lex_.token().kind == TokenKind::kNewline) lex_.Advance();
  }

  Status ParseLine() {
    if (lex_.token().kind == TokenKind::kName) {
      const std::string word = lex_.token().text;
      struct Line {
        std::string_view word;
        Status (GraphParser::*parse)();
      };
      static constexpr Line kLines[] = {
          {"graph", &GraphParser::ParseGraphLine},
          {"producer", &GraphParser::ParseProducer},
          {"opset", &GraphParser::ParseOpset},
          {"symbol", &GraphParser::ParseSymbol},
          {"weights", &GraphParser::ParseWeights},
          {"mesh", &GraphParser::ParseMeshLine},
          {"input", &GraphParser::ParseInput},
          {"param", &GraphParser::ParseParam},
          {"const", &GraphParser::ParseConstant},
          {"update", &GraphParser::ParseUpdate},
          {"output", &GraphParser::ParseOutput},
          {"dims", &GraphParser::ParseDims},
          {"sharding", &GraphParser::ParseShardingLine},
          {"doc", &GraphParser::ParseDoc},
          {"extension", &GraphParser::ParseGraphExtension},
      };
      for (const Line& line : kLines) {
        if (word != line.word) continue;
        lex_.Advance();
        return (this->*line.parse)();
      }
    }
    return ParseNode();
  }

  // --- Tokens ---
  absl::StatusOr<std::string> Name(std::string_view what) {
    const Token& t = lex_.token();
    if (t.kind != TokenKind::kName && t.kind != TokenKind::kQuoted) {
      return lex_.Error(StrCat("expected ", what));
    }
    std::string name = t.text;
    lex_.Advance();
    return name;
  }

  absl::StatusOr<std::string> Quoted(std::string_view what) {
    if (lex_.token().kind != TokenKind::kQuoted) return lex_.Error(StrCat("expected ", what));
    std::string text = lex_.token().text;
    lex_.Advance();
    return text;
  }

  template <typename T>
  absl::StatusOr<T> Integer() {
    const Token& t = lex_.token();
    T value = 0;
    const char* end = t.text.data() + t.text.size();
    if (t.kind == TokenKind::kNumber) {
      const auto [parsed, error] = std::from_chars(t.text.data(), end, value);
      if (error == std::errc() && parsed == end) {
        lex_.Advance();
        return value;
      }
    }
    return lex_.Error("expected an integer");
  }

  absl::StatusOr<double> Double() {
    const Token& t = lex_.token();
    double value = 0;
    if (t.text == "nan" || t.text == "inf" || t.text == "-inf") {
      value = t.text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
              : t.text == "inf" ? std::numeric_limits<double>::infinity()
                                : -std::numeric_limits<double>::infinity();
    } else {
      const char* end = t.text.data() + t.text.size();
      const auto [parsed, error] = std::from_chars(t.text.data(), end, value);
      if (t.kind != TokenKind::kNumber || error != std::errc() || parsed != end) {
        return lex_.Error("expected a number");
      }
    }
    lex_.Advance();
    return value;
  }

  // --- Values ---
  absl::StatusOr<ValueId> NewValue(ValueKind kind) {
    const FilePosition position = lex_.token().position;
    MILLRACE_ASSIGN_OR_RETURN(std::string name, Name("a value's name"));
    const ValueId id(g_.values.size());
    if (!by_name_.try_emplace(name, id).second) {
      return lex_.ErrorAt(position, StrCat("value '", name, "' is defined twice"));
    }
    Value value;
    value.name = std::move(name);
    value.kind = kind;
    value.position = position;
    g_.values.push_back(std::move(value));
    return id;
  }

  absl::StatusOr<ValueId> KnownValue() {
    const FilePosition position = lex_.token().position;
    MILLRACE_ASSIGN_OR_RETURN(const std::string name, Name("a value's name"));
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) {
      return lex_.ErrorAt(position, StrCat("value '", name, "' is not defined above"));
    }
    return it->second;
  }

  absl::StatusOr<TensorType> Type() {
    const std::optional<DType> dtype = ParseDType(lex_.token().text);
    if (lex_.token().kind != TokenKind::kName || !dtype) return lex_.Error("expected a type");
    TensorType type;
    type.dtype = *dtype;
    lex_.Advance();
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("["));
    while (!lex_.Take("]")) {
      if (type.shape.rank() > 0) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      if (type.shape.rank() == kMaxRank) return lex_.Error("a shape has at most 8 dims");
      MILLRACE_ASSIGN_OR_RETURN(const int64_t dim, Integer<int64_t>());
      if (dim < 0) return lex_.Error("a dim is negative");
      type.shape.push_back(dim);
    }
    if (!CheckedByteSize(type)) return lex_.Error("the type is too large");
    return type;
  }

  // The type after a ":".
  Status ParseType(ValueId id) {
    MILLRACE_ASSIGN_OR_RETURN(g_.value(id).type, Type());
    g_.value(id).typed = true;
    g_.value(id).bounded = lex_.TakeWord("bounded");
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> TypedValue(ValueKind kind) {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, NewValue(kind));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect(":"));
    MILLRACE_RETURN_IF_ERROR(ParseType(id));
    if (lex_.TakeWord("sharded")) MILLRACE_RETURN_IF_ERROR(ParseSharded(id));
    return id;
  }

  Status ParseSharded(ValueId id) {
    const FilePosition position = lex_.token().position;
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Quoted("a sharding, as \"data:0\""));
    absl::StatusOr<Sharding> sharding = ParseSharding(text, g_.mesh);
    if (!sharding.ok()) return lex_.ErrorAt(position, StdView(sharding.status().message()));
    g_.shardings[id] = *std::move(sharding);
    return absl::OkStatus();
  }

  // --- Lines ---
  Status ParseGraphLine() {
    MILLRACE_ASSIGN_OR_RETURN(g_.name, Name("the graph's name"));
    return absl::OkStatus();
  }
  Status ParseProducer() {
    MILLRACE_ASSIGN_OR_RETURN(g_.producer, Quoted("a string"));
    return absl::OkStatus();
  }
  Status ParseOpset() {
    MILLRACE_ASSIGN_OR_RETURN(const std::string domain, Name("a domain"));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(g_.opset[domain], Integer<int64_t>());
    return absl::OkStatus();
  }
  Status ParseSymbol() {
    Symbol symbol;
    MILLRACE_ASSIGN_OR_RETURN(symbol.name, Name("the symbol's name"));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(symbol.value, Integer<int64_t>());
    while (true) {
      if (lex_.TakeWord("min")) {
        MILLRACE_ASSIGN_OR_RETURN(symbol.min, Integer<int64_t>());
      } else if (lex_.TakeWord("max")) {
        MILLRACE_ASSIGN_OR_RETURN(symbol.max, Integer<int64_t>());
      } else if (lex_.TakeWord("multiple_of")) {
        MILLRACE_ASSIGN_OR_RETURN(symbol.multiple_of, Integer<int64_t>());
      } else if (lex_.TakeWord("default")) {
        MILLRACE_ASSIGN_OR_RETURN(symbol.default_value, Integer<int64_t>());
      } else {
        break;
      }
    }
    g_.symbols.push_back(std::move(symbol));
    return absl::OkStatus();
  }
  Status ParseWeights() {
    WeightFile file;
    MILLRACE_ASSIGN_OR_RETURN(file.key, Name("the weight file's key"));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(file.path, Quoted("its path"));
    if (lex_.TakeWord("sha256")) {
      MILLRACE_ASSIGN_OR_RETURN(file.sha256, Quoted("its digest"));
    }
    g_.weight_files.push_back(std::move(file));
    return absl::OkStatus();
  }
  Status ParseMeshLine() {
    const FilePosition position = lex_.token().position;
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Quoted("the mesh, as \"data=2\""));
    absl::StatusOr<Mesh> mesh = ParseMesh(text);
    if (!mesh.ok()) return lex_.ErrorAt(position, StdView(mesh.status().message()));
    g_.mesh = *std::move(mesh);
    g_.local_types = lex_.TakeWord("local");
    return absl::OkStatus();
  }
  Status ParseInput() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, TypedValue(ValueKind::kInput));
    g_.inputs.push_back(id);
    return absl::OkStatus();
  }
  Status ParseParam() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, TypedValue(ValueKind::kParam));
    g_.params.push_back(id);
    g_.value(id).trainable = lex_.TakeWord("trainable");
    return ParseData(id);
  }
  Status ParseConstant() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, TypedValue(ValueKind::kConstant));
    g_.constants.push_back(id);
    return ParseData(id);
  }
  Status ParseUpdate() {
    Update update;
    MILLRACE_ASSIGN_OR_RETURN(update.param, KnownValue());
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("<-"));
    MILLRACE_ASSIGN_OR_RETURN(update.value, KnownValue());
    g_.updates.push_back(update);
    return absl::OkStatus();
  }
  Status ParseOutput() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, KnownValue());
    g_.outputs.push_back(id);
    return absl::OkStatus();
  }
  Status ParseDims() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, KnownValue());
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(g_.symbolic_dims[id], NameList());
    return absl::OkStatus();
  }
  Status ParseShardingLine() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, KnownValue());
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    return ParseSharded(id);
  }
  Status ParseDoc() {
    MILLRACE_ASSIGN_OR_RETURN(const ValueId id, KnownValue());
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(g_.docs[id], Quoted("a string"));
    return absl::OkStatus();
  }
  Status ParseExtension(std::vector<Extension>& extensions) {
    Extension extension;
    MILLRACE_ASSIGN_OR_RETURN(extension.key, Name("the extension's key"));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(extension.json, Quoted("its JSON as a string"));
    extensions.push_back(std::move(extension));
    return absl::OkStatus();
  }
  Status ParseGraphExtension() { return ParseExtension(g_.extensions); }

  // --- Data ---
  Status ParseData(ValueId id) {
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    const TensorType type = GlobalType(g_, id);
    if (!CheckedByteSize(type).has_value()) return lex_.Error("the whole is no possible size");
    DataSource source;
    if (lex_.TakeWord("none")) {
      source.kind = DataSource::Kind::kNone;
    } else if (lex_.TakeWord("file")) {
      source.kind = DataSource::Kind::kFile;
      MILLRACE_ASSIGN_OR_RETURN(source.file, Name("a weight file's key"));
      MILLRACE_ASSIGN_OR_RETURN(source.tensor_name, Quoted("a tensor's name"));
    } else if (lex_.TakeWord("splat")) {
      source.kind = DataSource::Kind::kSplat;
      source.tensor = Tensor::Zeros({type.dtype, Shape{}});
      MILLRACE_RETURN_IF_ERROR(ParseElement(source.tensor, 0));
    } else if (lex_.TakeWord("inline")) {
      source.kind = DataSource::Kind::kInline;
      MILLRACE_RETURN_IF_ERROR(ParseInline(type, source.tensor));
    } else if (lex_.TakeWord("base64")) {
      source.kind = DataSource::Kind::kBase64;
      MILLRACE_RETURN_IF_ERROR(ParseBase64(type, source.tensor));
    } else if (lex_.TakeWord("init")) {
      source.kind = DataSource::Kind::kInit;
      MILLRACE_RETURN_IF_ERROR(ParseInit(source.init));
    } else {
      return lex_.Error("expected none, file, inline, base64, splat or init");
    }
    g_.value(id).data = static_cast<int32_t>(g_.data.size());
    g_.data.push_back(std::move(source));
    return absl::OkStatus();
  }

  Status ParseElement(Tensor& tensor, int64_t i) {
    if (tensor.dtype() == DType::kBool) {
      if (!lex_.IsWord("true") && !lex_.IsWord("false"))
        return lex_.Error("expected true or false");
      tensor.Set(i, lex_.IsWord("true") ? 1 : 0);
      lex_.Advance();
    } else if (tensor.dtype() == DType::kI64) {
      MILLRACE_ASSIGN_OR_RETURN(tensor.mutable_data<int64_t>()[i], Integer<int64_t>());
    } else if (tensor.dtype() == DType::kU64) {
      MILLRACE_ASSIGN_OR_RETURN(tensor.mutable_data<uint64_t>()[i], Integer<uint64_t>());
    } else {
      const FilePosition position = lex_.token().position;
      MILLRACE_ASSIGN_OR_RETURN(const double value, Double());
      tensor.Set(i, value);
      if (!IsFloat(tensor.dtype()) && tensor.AsDouble(i) != value) {
        return lex_.ErrorAt(position, StrCat("the number is no ", DTypeName(tensor.dtype())));
      }
    }
    return absl::OkStatus();
  }

  // Elements are counted before memory is taken, so a type may claim no more than is written.
  Status ParseInline(const TensorType& type, Tensor& tensor) {
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("["));
    const int64_t count = NumElements(type.shape);
    Tensor one = Tensor::Zeros({type.dtype, Shape{}});
    std::string bytes;
    int64_t parsed = 0;
    for (; !lex_.Is("]"); ++parsed) {
      if (parsed > 0) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      if (parsed == count) return lex_.Error(StrCat("the type has only ", count, " elements"));
      MILLRACE_RETURN_IF_ERROR(ParseElement(one, 0));
      bytes.append(reinterpret_cast<const char*>(one.bytes()), one.size_bytes());
    }
    if (parsed != count) return lex_.Error(StrCat("expected ", count, " elements, not ", parsed));
    lex_.Advance();
    return FromBytes(type, bytes, tensor);
  }

  Status ParseBase64(const TensorType& type, Tensor& tensor) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Quoted("base64 data"));
    std::string bytes;
    if (!absl::Base64Unescape(text, &bytes)) return lex_.Error("the string before is not base64");
    if (static_cast<int64_t>(bytes.size()) != ByteSize(type)) {
      return lex_.Error(StrCat("expected ", ByteSize(type), " bytes, not ", bytes.size()));
    }
    return FromBytes(type, bytes, tensor);
  }

  static Status FromBytes(const TensorType& type, std::string_view bytes, Tensor& tensor) {
    MILLRACE_ASSIGN_OR_RETURN(tensor, Tensor::Allocate(type));
    bytes.copy(reinterpret_cast<char*>(tensor.mutable_bytes()), bytes.size());
    return absl::OkStatus();
  }

  Status ParseInit(Init& init) {
    const std::optional<InitKind> kind = ParseInitKind(lex_.token().text);
    if (!kind) return lex_.Error("expected a kind of init");
    init.kind = *kind;
    lex_.Advance();
    while (true) {
      if (lex_.TakeWord("seed")) {
        MILLRACE_ASSIGN_OR_RETURN(init.seed, Integer<uint64_t>());
      } else if (lex_.TakeWord("low")) {
        MILLRACE_ASSIGN_OR_RETURN(init.low, Double());
      } else if (lex_.TakeWord("high")) {
        MILLRACE_ASSIGN_OR_RETURN(init.high, Double());
      } else if (lex_.TakeWord("std")) {
        MILLRACE_ASSIGN_OR_RETURN(init.std, Double());
      } else {
        return absl::OkStatus();
      }
    }
  }

  // --- Nodes ---
  // [name ":"] [outputs] "=" Op "(" inputs ")" clauses
  Status ParseNode() {
    const NodeId id(g_.nodes.size());
    Node node;
    node.position = lex_.token().position;
    MILLRACE_RETURN_IF_ERROR(ParseOutputs(id, node));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
    MILLRACE_ASSIGN_OR_RETURN(node.op, Name("an op"));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("("));
    while (!lex_.Take(")")) {
      if (!node.inputs.empty()) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      ValueId input;
      if (!lex_.TakeWord("_")) {
        MILLRACE_ASSIGN_OR_RETURN(input, KnownValue());
      }
      node.inputs.push_back(input);
    }
    MILLRACE_RETURN_IF_ERROR(ParseClauses(node));
    // The node's own results become visible to later lines only.
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (out.valid()) by_name_.emplace(g_.value(out).name, out);
    }
    if (!node_by_name_.try_emplace(node.name, id).second) {
      return lex_.ErrorAt(node.position, StrCat("node '", node.name, "' is defined twice"));
    }
    g_.nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  // The first name is the node's if ":" and then no type follows; it is the first output's
  // otherwise, and names the node too.
  Status ParseOutputs(NodeId id, Node& node) {
    bool first = true;
    while (!lex_.Is("=")) {
      if (!first && !node.outputs.empty()) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      if (lex_.TakeWord("_")) {
        node.outputs.push_back(ValueId());
        first = false;
        continue;
      }
      const FilePosition position = lex_.token().position;
      MILLRACE_ASSIGN_OR_RETURN(std::string name, Name("an output, a node's name, or '='"));
      if (first && lex_.Is(":")) {
        lex_.Advance();
        const bool is_type = lex_.token().kind == TokenKind::kName && ParseDType(lex_.token().text);
        if (!is_type) {
          node.name = std::move(name);
          first = false;
          continue;
        }
        MILLRACE_RETURN_IF_ERROR(AddResult(id, node, std::move(name), position));
        MILLRACE_RETURN_IF_ERROR(ParseType(node.outputs.back()));
      } else {
        MILLRACE_RETURN_IF_ERROR(AddResult(id, node, std::move(name), position));
        if (lex_.Take(":")) MILLRACE_RETURN_IF_ERROR(ParseType(node.outputs.back()));
      }
      first = false;
    }
    if (node.name.empty()) {
      if (node.outputs.empty() || !node.outputs[0].valid())
        return lex_.Error("the node has no name");
      node.name = g_.value(node.outputs[0]).name;
    }
    return absl::OkStatus();
  }

  Status AddResult(NodeId id, Node& node, std::string name, FilePosition position) {
    for (ValueId other : node.outputs) {
      if (other.valid() && g_.value(other).name == name) {
        return lex_.ErrorAt(position, StrCat("value '", name, "' is defined twice"));
      }
    }
    if (by_name_.contains(name)) {
      return lex_.ErrorAt(position, StrCat("value '", name, "' is defined twice"));
    }
    Value value;
    value.name = std::move(name);
    value.kind = ValueKind::kResult;
    value.producer = id;
    value.result_index = static_cast<int32_t>(node.outputs.size());
    value.position = position;
    node.outputs.push_back(ValueId(g_.values.size()));
    g_.values.push_back(std::move(value));
    return absl::OkStatus();
  }

  Status ParseClauses(Node& node) {
    if (lex_.Take("{")) MILLRACE_RETURN_IF_ERROR(ParseAttrs(node));
    while (true) {
      if (lex_.TakeWord("after")) {
        MILLRACE_RETURN_IF_ERROR(ParseAfter(node));
      } else if (lex_.TakeWord("device")) {
        MILLRACE_ASSIGN_OR_RETURN(node.device, Quoted("a device"));
      } else if (lex_.TakeWord("stream")) {
        MILLRACE_ASSIGN_OR_RETURN(node.stream, Integer<int32_t>());
      } else if (lex_.TakeWord("scope")) {
        MILLRACE_ASSIGN_OR_RETURN(node.scope, Quoted("a scope"));
      } else if (lex_.TakeWord("origin")) {
        MILLRACE_ASSIGN_OR_RETURN(node.origin, NameList());
      } else if (lex_.TakeWord("extension")) {
        MILLRACE_RETURN_IF_ERROR(ParseExtension(node.extensions));
      } else if (lex_.TakeWord("graph")) {
        MILLRACE_RETURN_IF_ERROR(ParseSubgraph(node));
      } else {
        return absl::OkStatus();
      }
    }
  }

  Status ParseAttrs(Node& node) {
    bool first = true;
    while (!lex_.Take("}")) {
      if (!first) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      first = false;
      MILLRACE_ASSIGN_OR_RETURN(const std::string key, Name("an attribute's name"));
      if (node.attrs.Find(key) != nullptr)
        return lex_.Error(StrCat("attribute '", key, "' is given twice"));
      MILLRACE_RETURN_IF_ERROR(lex_.Expect("="));
      MILLRACE_ASSIGN_OR_RETURN(AttrValue value, ParseAttrValue());
      node.attrs.Set(key, std::move(value));
    }
    return absl::OkStatus();
  }

  bool IsDoubleNext() const {
    const Token& t = lex_.token();
    return t.text == "nan" || t.text == "inf" || t.text == "-inf" ||
           (t.kind == TokenKind::kNumber && t.text.find_first_of(".e") != std::string::npos);
  }

  absl::StatusOr<AttrValue> ParseAttrValue() {
    if (lex_.TakeWord("true")) return AttrValue(true);
    if (lex_.TakeWord("false")) return AttrValue(false);
    if (lex_.token().kind == TokenKind::kQuoted) {
      MILLRACE_ASSIGN_OR_RETURN(std::string text, Quoted("a string"));
      return AttrValue(std::move(text));
    }
    if (lex_.Take("[")) return ParseAttrList();
    if (IsDoubleNext()) {
      MILLRACE_ASSIGN_OR_RETURN(const double value, Double());
      return AttrValue(value);
    }
    MILLRACE_ASSIGN_OR_RETURN(const int64_t value, Integer<int64_t>());
    return AttrValue(value);
  }

  // After "[": all ints, all doubles or all strings, by the first element.
  absl::StatusOr<AttrValue> ParseAttrList() {
    if (lex_.token().kind == TokenKind::kQuoted) {
      std::vector<std::string> items;
      MILLRACE_RETURN_IF_ERROR(
          ParseRest<std::string>(items, [this] { return Quoted("a string"); }));
      return AttrValue(std::move(items));
    }
    if (IsDoubleNext()) {
      std::vector<double> items;
      MILLRACE_RETURN_IF_ERROR(ParseRest<double>(items, [this] { return Double(); }));
      return AttrValue(std::move(items));
    }
    std::vector<int64_t> items;
    MILLRACE_RETURN_IF_ERROR(ParseRest<int64_t>(items, [this] { return Integer<int64_t>(); }));
    return AttrValue(std::move(items));
  }

  // Items up to and with "]", after "[".
  template <typename T, typename F>
  Status ParseRest(std::vector<T>& items, F parse) {
    while (!lex_.Take("]")) {
      if (!items.empty()) MILLRACE_RETURN_IF_ERROR(lex_.Expect(","));
      MILLRACE_ASSIGN_OR_RETURN(T item, parse());
      items.push_back(std::move(item));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> NameList() {
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("["));
    std::vector<std::string> items;
    MILLRACE_RETURN_IF_ERROR(ParseRest<std::string>(items, [this] { return Name("a name"); }));
    return items;
  }

  Status ParseAfter(Node& node) {
    const FilePosition position = lex_.token().position;
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NameList());
    for (const std::string& name : names) {
      const auto it = node_by_name_.find(name);
      if (it == node_by_name_.end()) {
        return lex_.ErrorAt(position, StrCat("node '", name, "' is not defined above"));
      }
      node.after.push_back(it->second);
    }
    return absl::OkStatus();
  }

  Status ParseSubgraph(Node& node) {
    if (depth_ == kMaxGraphNesting) return lex_.Error("graphs are nested too deep");
    Subgraph sub;
    MILLRACE_ASSIGN_OR_RETURN(sub.name, Name("the nested graph's name"));
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("{"));
    MILLRACE_ASSIGN_OR_RETURN(sub.graph, GraphParser(lex_, g_.file, depth_ + 1).Parse());
    MILLRACE_RETURN_IF_ERROR(lex_.Expect("}"));
    node.subgraphs.push_back(std::move(sub));
    return absl::OkStatus();
  }

  TextLexer& lex_;
  int depth_;
  Graph g_;
  absl::flat_hash_map<std::string, ValueId> by_name_;
  absl::flat_hash_map<std::string, NodeId> node_by_name_;
};

}  // namespace

absl::StatusOr<Graph> ParseGraphText(std::string_view text, std::string_view file) {
  TextLexer lexer(text, file);
  MILLRACE_ASSIGN_OR_RETURN(Graph graph, GraphParser(lexer, file, 0).Parse());
  if (lexer.Is("}")) return lexer.Error("there is no graph to close");
  return graph;
}

}  // namespace millrace
