#include "absl/strings/escaping.h"
#include "graph/strings.h"
#include "graph/text.h"
#include "graph/text_syntax.h"

namespace millrace {
namespace {

std::string ElementText(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kBool) return t.AsInt64(i) != 0 ? "true" : "false";
  if (t.dtype() == DType::kU64) return StrCat(t.data<uint64_t>()[i]);
  if (!IsFloat(t.dtype())) return StrCat(t.AsInt64(i));
  if (t.dtype() == DType::kF64) return NumberText(t.AsDouble(i));
  return NumberText(static_cast<float>(t.AsDouble(i)));
}

template <typename T, typename F>
std::string ListText(const std::vector<T>& items, F text) {
  std::string s = "[";
  for (size_t i = 0; i < items.size(); ++i) StrAppend(&s, i > 0 ? ", " : "", text(items[i]));
  return s + "]";
}

std::string AttrText(const AttrValue& value) {
  struct Visitor {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return StrCat(i); }
    std::string operator()(double d) const { return NumberText(d); }
    std::string operator()(const std::string& s) const { return QuoteText(s); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return ListText(v, [](int64_t i) { return StrCat(i); });
    }
    std::string operator()(const std::vector<double>& v) const {
      return ListText(v, [](double d) { return NumberText(d); });
    }
    std::string operator()(const std::vector<std::string>& v) const {
      return ListText(v, QuoteText);
    }
  };
  return std::visit(Visitor{}, value);
}

class Printer {
 public:
  Printer(const Graph& graph, std::string indent) : g_(graph), indent_(std::move(indent)) {}

  std::string Print() {
    Header();
    for (ValueId id : g_.inputs) Line(StrCat("input ", TypedName(id)));
    for (ValueId id : g_.params) {
      Line(StrCat("param ", LeafName(id), g_.value(id).trainable ? " trainable" : "", " = ",
                  DataText(id)));
    }
    for (ValueId id : g_.constants) Line(StrCat("const ", LeafName(id), " = ", DataText(id)));
    for (const Node& node : g_.nodes) PrintNode(node);
    for (const Update& u : g_.updates)
      Line(StrCat("update ", Name(u.param), " <- ", Name(u.value)));
    for (ValueId id : g_.outputs) Line(StrCat("output ", Name(id)));
    RareFacts();
    for (const Extension& e : g_.extensions) {
      Line(StrCat("extension ", NameText(e.key), " = ", QuoteText(e.json)));
    }
    return std::move(out_);
  }

 private:
  void Line(std::string_view text) { StrAppend(&out_, indent_, text, "\n"); }
  std::string Name(ValueId id) const { return id.valid() ? NameText(g_.value(id).name) : "_"; }

  // Of a param or constant; how it is sharded decides how much data there are of it.
  std::string LeafName(ValueId id) const {
    const auto sharding = g_.shardings.find(id);
    if (!g_.local_types || sharding == g_.shardings.end()) return TypedName(id);
    return StrCat(TypedName(id), " sharded ", QuoteText(ToString(sharding->second, g_.mesh)));
  }

  std::string TypedName(ValueId id) const {
    if (!id.valid()) return "_";
    const Value& value = g_.value(id);
    std::string s = NameText(value.name);
    if (value.typed) StrAppend(&s, " : ", ToString(value.type), value.bounded ? " bounded" : "");
    return s;
  }

  void Header() {
    if (!g_.name.empty()) Line(StrCat("graph ", NameText(g_.name)));
    if (!g_.producer.empty()) Line(StrCat("producer ", QuoteText(g_.producer)));
    for (const auto& [domain, version] : g_.opset) {
      Line(StrCat("opset ", NameText(domain), " = ", version));
    }
    for (const Symbol& s : g_.symbols) {
      std::string line =
          StrCat("symbol ", NameText(s.name), " = ", s.value, " min ", s.min, " max ", s.max);
      if (s.multiple_of != 1) StrAppend(&line, " multiple_of ", s.multiple_of);
      if (s.default_value) StrAppend(&line, " default ", *s.default_value);
      Line(line);
    }
    for (const WeightFile& w : g_.weight_files) {
      Line(StrCat("weights ", NameText(w.key), " = ", QuoteText(w.path),
                  w.sha256.empty() ? "" : StrCat(" sha256 ", QuoteText(w.sha256))));
    }
    if (!g_.mesh.axes.empty()) {
      Line(StrCat("mesh ", QuoteText(ToString(g_.mesh)), g_.local_types ? " local" : ""));
    }
  }

  std::string DataText(ValueId id) const {
    const DataSource& source = g_.data_of(id);
    switch (source.kind) {
      case DataSource::Kind::kNone:
        return "none";
      case DataSource::Kind::kFile:
        return StrCat("file ", NameText(source.file), " ", QuoteText(source.tensor_name));
      case DataSource::Kind::kSplat:
        return StrCat("splat ", ElementText(source.tensor, 0));
      case DataSource::Kind::kBase64: {
        const Tensor& t = source.tensor;
        return StrCat("base64 ", QuoteText(absl::Base64Escape(absl::string_view(
                                     reinterpret_cast<const char*>(t.bytes()), t.size_bytes()))));
      }
      case DataSource::Kind::kInline: {
        std::string s = "inline [";
        for (int64_t i = 0; i < source.tensor.num_elements(); ++i) {
          StrAppend(&s, i > 0 ? ", " : "", ElementText(source.tensor, i));
        }
        return s + "]";
      }
      case DataSource::Kind::kInit: {
        const Init& init = source.init;
        return StrCat("init ", InitKindText(init.kind), " seed ", init.seed, " low ",
                      NumberText(init.low), " high ", NumberText(init.high), " std ",
                      NumberText(init.std));
      }
    }
    return "";
  }

  void PrintNode(const Node& node) {
    std::string line;
    const bool named_after_output = !node.outputs.empty() && node.outputs[0].valid() &&
                                    g_.value(node.outputs[0]).name == node.name;
    if (!named_after_output) StrAppend(&line, NameText(node.name), ": ");
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      StrAppend(&line, i > 0 ? ", " : "", TypedName(node.outputs[i]));
    }
    StrAppend(&line, node.outputs.empty() ? "" : " ", "= ", NameText(node.op), "(");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      StrAppend(&line, i > 0 ? ", " : "", Name(node.inputs[i]));
    }
    line += ")";
    if (!node.attrs.empty()) {
      std::string attrs;
      for (const auto& [key, value] : node.attrs) {
        StrAppend(&attrs, attrs.empty() ? "" : ", ", NameText(key), " = ", AttrText(value));
      }
      StrAppend(&line, " {", attrs, "}");
    }
    if (!node.after.empty()) {
      StrAppend(&line, " after ",
                ListText(node.after, [this](NodeId n) { return NameText(g_.node(n).name); }));
    }
    if (!node.device.empty()) StrAppend(&line, " device ", QuoteText(node.device));
    if (node.stream >= 0) StrAppend(&line, " stream ", node.stream);
    if (!node.scope.empty()) StrAppend(&line, " scope ", QuoteText(node.scope));
    if (!node.origin.empty()) StrAppend(&line, " origin ", ListText(node.origin, QuoteText));
    for (const Extension& e : node.extensions) {
      StrAppend(&line, " extension ", NameText(e.key), " = ", QuoteText(e.json));
    }
    for (const Subgraph& sub : node.subgraphs) {
      StrAppend(&line, " graph ", NameText(sub.name), " {\n",
                Printer(sub.graph, indent_ + "  ").Print(), indent_, "}");
    }
    Line(line);
  }

  // In the order in which values were printed, which is the order parsing numbers them in.
  void RareFacts() {
    if (g_.symbolic_dims.empty() && g_.shardings.empty() && g_.docs.empty()) return;
    std::vector<ValueId> order;
    for (const auto* list : {&g_.inputs, &g_.params, &g_.constants}) {
      order.insert(order.end(), list->begin(), list->end());
    }
    for (const Node& node : g_.nodes) {
      for (ValueId id : node.outputs) {
        if (id.valid()) order.push_back(id);
      }
    }
    for (ValueId id : order) {
      if (const auto it = g_.symbolic_dims.find(id); it != g_.symbolic_dims.end()) {
        Line(StrCat("dims ", Name(id), " = ", ListText(it->second, QuoteText)));
      }
      const bool said = g_.local_types && g_.value(id).data >= 0;
      if (const auto it = g_.shardings.find(id); it != g_.shardings.end() && !said) {
        Line(StrCat("sharding ", Name(id), " = ", QuoteText(ToString(it->second, g_.mesh))));
      }
      if (const auto it = g_.docs.find(id); it != g_.docs.end()) {
        Line(StrCat("doc ", Name(id), " = ", QuoteText(it->second)));
      }
    }
  }

  const Graph& g_;
  std::string indent_;
  std::string out_;
};

}  // namespace

std::string ToText(const Graph& graph) { return Printer(graph, "").Print(); }

bool SameGraph(const Graph& a, const Graph& b) { return ToText(a) == ToText(b); }

}  // namespace millrace
