// Writing a graph file: one spelling for each graph. Sections and keys have a fixed order, lists
// theirs, and what is keyed by value follows the order in which the file names the values, so that
// the numbering of values leaves no trace. What has its default is left out.
#include "graph/graph_json.h"
#include "graph/graph_json_parts.h"
#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class GraphWriter {
 public:
  // `indent`: of the graph's braces. Without `outermost`, format and version are left out.
  GraphWriter(const Graph& graph, bool with_types, int indent, std::string& out)
      : g_(graph), with_types_(with_types), indent_(indent), out_(out) {}

  void Write(bool outermost) {
    out_ += '{';
    if (outermost) {
      Key("format") += "\"millrace-graph\"";
      Key("version") += "\"1.0\"";
    }
    if (!g_.name.empty()) AppendJsonString(&Key("name"), g_.name);
    if (!g_.producer.empty()) Key("producer") += g_.producer;
    if (!g_.opset.empty()) WriteOpset();
    if (!g_.symbols.empty()) WriteSymbols();
    if (!g_.mesh.axes.empty()) AppendJsonString(&Key("mesh"), ToString(g_.mesh));
    if (g_.local_types) Key("local_types") += "true";
    if (!g_.weight_files.empty()) WriteWeights();
    WriteValues("inputs", g_.inputs);
    if (!g_.params.empty()) WriteValues("params", g_.params);
    if (!g_.constants.empty()) WriteValues("constants", g_.constants);
    WriteNodes();
    if (!g_.updates.empty()) WriteUpdates();
    WriteNames(&Key("outputs"), g_.outputs);
    if (!g_.shardings.empty()) WriteShardings();
    if (with_types_) WriteTypes();
    for (const Extension& extension : g_.extensions) Key(extension.key) += extension.json;
    NewLine(0);
    out_ += '}';
  }

 private:
  void NewLine(int more) {
    out_ += '\n';
    out_.append(static_cast<size_t>(indent_ + more), ' ');
  }

  // Starts the member `key`, on a line of its own.
  std::string& Key(std::string_view key) {
    if (!first_key_) out_ += ',';
    first_key_ = false;
    NewLine(2);
    AppendJsonString(&out_, key);
    out_ += ": ";
    return out_;
  }

  // A section is a list or object with one item a line: Open, then Item before each, then Close.
  void Open(std::string_view key, char bracket) {
    Key(key) += bracket;
    first_item_ = true;
  }
  void Item() {
    if (!first_item_) out_ += ',';
    first_item_ = false;
    NewLine(4);
  }
  void Item(std::string_view key) {
    Item();
    AppendJsonString(&out_, key);
    out_ += ": ";
  }
  void Close(char bracket) {
    if (!first_item_) NewLine(2);
    out_ += bracket;
  }

  void WriteOpset() {
    std::string_view separator = "{";
    Key("opset");
    for (const auto& [domain, version] : g_.opset) {
      StrAppend(&out_, separator, JsonString(domain), ": ", version);
      separator = ", ";
    }
    out_ += '}';
  }

  void WriteSymbols() {
    Open("symbols", '{');
    for (const Symbol& symbol : g_.symbols) {
      Item(symbol.name);
      AppendSymbol(&out_, symbol, /*with_bound=*/with_types_);
    }
    Close('}');
  }

  void WriteWeights() {
    Open("weights", '{');
    for (const WeightFile& file : g_.weight_files) {
      Item(file.key);
      StrAppend(&out_, "{\"path\": ", JsonString(file.path));
      if (!file.sha256.empty()) StrAppend(&out_, ", \"sha256\": \"", file.sha256, "\"");
      out_ += '}';
    }
    Close('}');
  }

  void WriteType(ValueId id) {
    const Value& value = g_.value(id);
    const auto dims = g_.symbolic_dims.find(id);
    AppendType(&out_, value.type, dims == g_.symbolic_dims.end() ? nullptr : &dims->second,
               value.bounded);
  }

  void WriteValues(std::string_view section, const std::vector<ValueId>& ids) {
    Open(section, '[');
    for (const ValueId id : ids) {
      const Value& value = g_.value(id);
      Item();
      StrAppend(&out_, "{\"name\": ", JsonString(value.name));
      if (value.typed) {  // inputs of bodies may not be, before inference
        out_ += ", \"type\": ";
        WriteType(id);
      }
      if (value.data >= 0) {
        out_ += ", \"data\": ";
        AppendData(&out_, g_.data_of(id));
      }
      if (value.trainable) out_ += ", \"trainable\": true";
      if (const auto doc = g_.docs.find(id); doc != g_.docs.end()) {
        StrAppend(&out_, ", \"doc\": ", JsonString(doc->second));
      }
      out_ += '}';
    }
    Close(']');
  }

  void WriteNames(std::string* to, const std::vector<ValueId>& ids) {
    std::string_view separator = "";
    *to += '[';
    for (const ValueId id : ids) {
      *to += separator;
      if (id.valid()) {
        AppendJsonString(to, g_.value(id).name);
      } else {
        *to += "null";
      }
      separator = ", ";
    }
    *to += ']';
  }

  void WriteNodes() {
    Open("nodes", '[');
    for (const Node& node : g_.nodes) {
      Item();
      WriteNode(node);
    }
    Close(']');
  }

  void WriteNode(const Node& node) {
    out_ += "{\"name\": ";
    AppendJsonString(&out_, node.name);
    out_ += ", \"op\": ";
    AppendJsonString(&out_, node.op);
    out_ += ", \"inputs\": ";
    WriteNames(&out_, node.inputs);
    out_ += ", \"outputs\": ";
    WriteNames(&out_, node.outputs);
    if (!node.attrs.empty()) {
      out_ += ", \"attrs\": ";
      AppendAttrs(&out_, node.attrs);
    }
    if (!node.subgraphs.empty()) WriteSubgraphs(node);
    if (!node.after.empty()) {
      std::vector<std::string> names;
      for (const NodeId before : node.after) names.push_back(g_.node(before).name);
      out_ += ", \"after\": ";
      AppendStrings(&out_, names);
    }
    if (!node.device.empty()) StrAppend(&out_, ", \"device\": ", JsonString(node.device));
    if (node.stream >= 0) StrAppend(&out_, ", \"stream\": ", node.stream);
    if (!node.scope.empty()) StrAppend(&out_, ", \"scope\": ", JsonString(node.scope));
    if (!node.origin.empty()) {
      out_ += ", \"origin\": ";
      AppendStrings(&out_, node.origin);
    }
    for (const Extension& extension : node.extensions) {
      StrAppend(&out_, ", ", JsonString(extension.key), ": ", extension.json);
    }
    out_ += '}';
  }

  void WriteSubgraphs(const Node& node) {
    out_ += ", \"graphs\": {";
    std::string_view separator = "";
    for (const Subgraph& sub : node.subgraphs) {
      out_ += separator;
      NewLine(6);
      AppendJsonString(&out_, sub.name);
      out_ += ": ";
      GraphWriter(sub.graph, with_types_, indent_ + 6, out_).Write(/*outermost=*/false);
      separator = ",";
    }
    NewLine(4);
    out_ += '}';
  }

  void WriteUpdates() {
    Open("updates", '[');
    for (const Update& update : g_.updates) {
      Item();
      StrAppend(&out_, "{\"param\": ", JsonString(g_.value(update.param).name),
                ", \"value\": ", JsonString(g_.value(update.value).name), "}");
    }
    Close(']');
  }

  void WriteShardings() {
    std::vector<ValueId> order;
    for (const auto* ids : {&g_.inputs, &g_.params, &g_.constants}) {
      order.insert(order.end(), ids->begin(), ids->end());
    }
    for (const Node& node : g_.nodes) {
      order.insert(order.end(), node.outputs.begin(), node.outputs.end());
    }
    Open("shardings", '{');
    for (const ValueId id : order) {
      const auto sharding = g_.shardings.find(id);
      if (sharding == g_.shardings.end()) continue;
      Item(g_.value(id).name);
      AppendJsonString(&out_, ToString(sharding->second, g_.mesh));
    }
    Close('}');
  }

  void WriteTypes() {
    bool any = false;
    for (const Node& node : g_.nodes) {
      for (const ValueId id : node.outputs) {
        if (!id.valid() || !g_.value(id).typed) continue;
        if (!any) Open("types", '{');
        any = true;
        Item(g_.value(id).name);
        WriteType(id);
      }
    }
    if (any) Close('}');
  }

  const Graph& g_;
  const bool with_types_;
  const int indent_;
  std::string& out_;
  bool first_key_ = true;
  bool first_item_ = true;
};

}  // namespace

std::string GraphToJson(const Graph& graph, bool with_types) {
  std::string out;
  GraphWriter(graph, with_types, 0, out).Write(/*outermost=*/true);
  out += '\n';
  return out;
}

}  // namespace millrace
