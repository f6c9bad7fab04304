// Reading a graph file, in the order of what depends on what: symbols; then all names (inputs,
// params, constants, results), so that nodes may refer to values that come later in the file; then
// all uses of names; then the order of the nodes. Faults are collected; whatever can still be
// understood is read on.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "graph/files.h"
#include "graph/graph_json.h"
#include "graph/graph_json_names.h"
#include "graph/graph_json_parts.h"
#include "graph/json_document.h"
#include "graph/machine.h"
#include "graph/node_order.h"
#include "graph/strings.h"
#include "graph/verify.h"

namespace millrace {
namespace {

constexpr size_t kMaxText = 1024;  // of names, scopes, meshes

// Keys up to kLastOuterKey belong to the outermost graph only.
enum GraphKey {
  kFormat,
  kVersion,
  kProducer,
  kOpset,
  kSymbols,
  kParams,
  kUpdates,
  kLocalTypes,
  kLastOuterKey = kLocalTypes,
  kName,
  kMesh,
  kWeights,
  kInputs,
  kConstants,
  kNodes,
  kOutputs,
  kShardings,
  kTypes,
  kNumGraphKeys
};
constexpr std::string_view kGraphKeys[kNumGraphKeys] = {
    "format",    "version",     "producer", "opset",     "symbols", "params",
    "updates",   "local_types", "name",     "mesh",      "weights", "inputs",
    "constants", "nodes",       "outputs",  "shardings", "types"};

// In the order in which they are written, which makes finding them quick.
enum NodeKey {
  kNodeName,
  kOp,
  kNodeInputs,
  kNodeOutputs,
  kAttrs,
  kGraphs,
  kAfter,
  kDevice,
  kStream,
  kScope,
  kOrigin,
  kNumNodeKeys
};
constexpr std::string_view kNodeKeys[kNumNodeKeys] = {"name",   "op",     "inputs", "outputs",
                                                      "attrs",  "graphs", "after",  "device",
                                                      "stream", "scope",  "origin"};

enum ValueKey { kValueName, kType, kData, kTrainable, kDoc, kNumValueKeys };
constexpr std::string_view kValueKeys[kNumValueKeys] = {"name", "type", "data", "trainable", "doc"};

// [domain "."] Name
bool IsOpName(std::string_view op) {
  const auto lower = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const size_t dot = op.find('.');
  if (dot == 0) return false;
  if (dot != std::string_view::npos) {
    for (const char c : op.substr(0, dot)) {
      if (!lower(c)) return false;
    }
    op.remove_prefix(dot + 1);
  }
  for (const char c : op) {
    if (!lower(c) && !letter(c)) return false;
  }
  return !op.empty() && letter(op[0]);
}

class GraphReader {
 public:
  // `outer` is the reader of the graph around a nested one; null for the outermost.
  GraphReader(const JsonReader& reader, const SymbolValues& symbols, const GraphReader* outer,
              Graph& graph)
      : reader_(reader),
        symbols_(symbols),
        g_(graph),
        outer_(outer),
        names_(graph, outer == nullptr ? nullptr : &outer->names_) {}

  void Read() {
    if (!reader_.Members(kGraphKeys, members_)) return;
    for (const GraphKey key : {kInputs, kNodes, kOutputs}) {
      if (!Has(key)) reader_.Error(StrCat("key \"", kGraphKeys[key], "\" is missing"));
    }
    ReadHeader();
    if (g_.local_types && Has(kShardings)) ReadShardingsByName(*members_[kShardings]);
    ReserveValues();
    if (Has(kInputs)) ReadValues(*members_[kInputs], ValueKind::kInput, g_.inputs);
    if (Has(kParams)) ReadValues(*members_[kParams], ValueKind::kParam, g_.params);
    if (Has(kConstants)) ReadValues(*members_[kConstants], ValueKind::kConstant, g_.constants);
    if (Has(kNodes)) ReadNodes(*members_[kNodes]);
    if (Has(kOutputs)) ReadOutputs(*members_[kOutputs]);
    if (Has(kUpdates)) ReadUpdates(*members_[kUpdates]);
    if (Has(kTypes)) ReadTypes(*members_[kTypes]);
    if (Has(kShardings)) ReadShardings(*members_[kShardings]);
    OrderNodes();
  }

 private:
  bool Has(GraphKey key) const { return members_[key].has_value(); }

  // --- Facts about the graph as a whole ---
  void ReadHeader() {
    if (outer_ != nullptr) {
      for (int key = 0; key <= kLastOuterKey; ++key) {
        if (!members_[key].has_value()) continue;
        members_[key]->Error(
            StrCat("\"", kGraphKeys[key], "\" belongs to the outermost graph only"));
        members_[key].reset();
      }
    }
    if (Has(kName)) g_.name = members_[kName]->String(kMaxText, /*allow_empty=*/true).value_or("");
    if (Has(kProducer)) g_.producer = ReadProducer(*members_[kProducer]);
    if (Has(kOpset)) g_.opset = ReadOpset(*members_[kOpset]);
    if (Has(kMesh)) g_.mesh = ReadMesh(*members_[kMesh]);
    if (Has(kLocalTypes)) g_.local_types = members_[kLocalTypes]->Bool().value_or(false);
    if (Has(kWeights)) g_.weight_files = ReadWeightFiles(*members_[kWeights]);
    for (const WeightFile& file : g_.weight_files) weight_keys_.insert(file.key);
    g_.extensions = ReadExtensions(reader_);
  }

  void ReserveValues() {
    size_t count = 0;
    for (const GraphKey key : {kInputs, kParams, kConstants, kNodes}) {
      if (Has(key) && members_[key]->IsArray()) count += members_[key]->value().size;
    }
    names_.Reserve(count);
  }

  // --- Inputs, params, constants ---
  void ReadValues(const JsonReader& list, ValueKind kind, std::vector<ValueId>& ids) {
    list.ForEachElement([&](const JsonReader& reader) {
      std::optional<JsonReader> m[kNumValueKeys];
      if (!reader.Members(kValueKeys, m, /*extensions=*/false)) return;
      const bool has_data = kind != ValueKind::kInput;
      // What a body's inputs are follows from what its node passes in.
      const bool needs_type = kind != ValueKind::kInput || outer_ == nullptr;
      for (const ValueKey key : {kValueName, kType, kData}) {
        if (m[key].has_value() || (key == kData && !has_data)) continue;
        if (key == kType && !needs_type) continue;
        reader.Error(StrCat("key \"", kValueKeys[key], "\" is missing"));
      }
      if (m[kData].has_value() && !has_data) m[kData]->Error("an input has no data of its own");
      if (m[kTrainable].has_value() && kind != ValueKind::kParam) {
        m[kTrainable]->Error("only params are trainable");
      }
      if (!m[kValueName].has_value()) return;
      const std::optional<std::string_view> name = ReadName(*m[kValueName]);
      if (!name.has_value()) return;
      const ValueId id = names_.Define(*name, *m[kValueName], kind);
      ids.push_back(id);
      Value& value = g_.value(id);
      if (m[kType].has_value()) SetType(*m[kType], kind == ValueKind::kInput, id);
      if (m[kTrainable].has_value()) value.trainable = m[kTrainable]->Bool().value_or(false);
      if (m[kDoc].has_value()) {
        if (auto doc = m[kDoc]->String(1 << 20)) g_.docs[id] = *std::move(doc);
      }
      if (m[kData].has_value() && has_data && value.typed) {
        const auto sharding = sharding_by_name_.find(AbslView(*name));
        if (sharding != sharding_by_name_.end()) g_.shardings[id] = sharding->second;
        SetData(*m[kData], id);
      }
    });
  }

  void SetType(const JsonReader& reader, bool may_be_bounded, ValueId id) {
    std::optional<TypeAsWritten> type = ReadType(reader, symbols_, may_be_bounded);
    if (!type.has_value()) return;
    Value& value = g_.value(id);
    value.type = type->type;
    value.bounded = type->bounded;
    value.typed = true;
    if (!type->dims.empty()) g_.symbolic_dims[id] = std::move(type->dims);
  }

  void SetData(const JsonReader& reader, ValueId id) {
    const TensorType whole = GlobalType(g_, id);
    if (!CheckedByteSize(whole).has_value()) {
      return reader.Error(StrCat("the whole of it, ", ToString(whole), ", is not a possible size"));
    }
    std::optional<DataSource> data = ReadData(reader, whole);
    if (!data.has_value()) return;
    if (data->kind == DataSource::Kind::kFile && !weight_keys_.contains(data->file)) {
      if (!reader.IsCountedOnly()) {
        std::vector<std::string> known;
        for (const WeightFile& file : g_.weight_files) known.push_back(file.key);
        reader.Error(StrCat("\"weights\" has no file '", data->file, "'"), "", "",
                     DidYouMean(data->file, known));
      }
    }
    g_.value(id).data = static_cast<int32_t>(g_.data.size());
    g_.data.push_back(*std::move(data));
  }

  // --- Nodes ---
  void ReadNodes(const JsonReader& list) {
    if (list.IsArray()) {
      g_.nodes.reserve(list.value().size);
      nodes_.reserve(list.value().size);
      uses_.reserve(list.value().size);
    }
    list.ForEachElement([&](const JsonReader& reader) { ReadNode(reader); });
    for (Node& node : g_.nodes) {
      if (node.name.empty()) NameNode(node);
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) ReadUses(g_.nodes[n], uses_[n]);
  }

  // What can be read before all names are known; the rest waits in uses_.
  void ReadNode(const JsonReader& reader) {
    const NodeId id(g_.nodes.size());
    Node& node = g_.nodes.emplace_back();
    Uses& uses = uses_.emplace_back();
    node.file_index = id.index;
    node.position = reader.position();
    std::optional<JsonReader> m[kNumNodeKeys];
    if (!reader.Members(kNodeKeys, m)) return;
    for (const NodeKey key : {kOp, kNodeInputs, kNodeOutputs}) {
      if (!m[key].has_value()) reader.Error(StrCat("key \"", kNodeKeys[key], "\" is missing"));
    }
    if (m[kNodeName].has_value()) ReadNodeName(*m[kNodeName], node, id);
    if (m[kOp].has_value()) ReadOp(*m[kOp], node);
    if (m[kNodeOutputs].has_value()) ReadResults(*m[kNodeOutputs], node, id);
    if (m[kAttrs].has_value()) node.attrs = ReadAttrs(*m[kAttrs]).value_or(Attrs());
    if (m[kGraphs].has_value()) ReadSubgraphs(*m[kGraphs], node);
    if (m[kDevice].has_value()) ReadDevice(*m[kDevice], node);
    if (m[kStream].has_value()) {
      node.stream = static_cast<int32_t>(m[kStream]->Int(0, 1 << 20).value_or(-1));
    }
    if (m[kScope].has_value()) {
      node.scope = m[kScope]->String(kMaxText, /*allow_empty=*/true).value_or("");
    }
    if (m[kOrigin].has_value()) node.origin = ReadStrings(*m[kOrigin]);
    if (HasExtensions(reader, m)) node.extensions = ReadExtensions(reader);
    uses.inputs = m[kNodeInputs];
    uses.after = m[kAfter];
  }

  // Whether there are members beyond the known ones; saves most nodes a second look.
  static bool HasExtensions(const JsonReader& reader, const std::optional<JsonReader>* members) {
    uint32_t known = 0;
    for (int key = 0; key < kNumNodeKeys; ++key) known += members[key].has_value();
    return known < reader.value().size;
  }

  void ReadNodeName(const JsonReader& reader, Node& node, NodeId id) {
    const std::optional<std::string_view> name = ReadName(reader);
    if (!name.has_value()) return;
    node.name = std::string(*name);
    const auto [found, fresh] = nodes_.try_emplace(AbslView(*name), id);
    if (!fresh) {
      const FilePosition first = g_.node(found->second).position;
      reader.Error(StrCat("node '", *name, "' is defined twice"), "", "",
                   StrCat("first at ", first.line, ":", first.column));
    }
  }

  // After its first result, or its op; made unique.
  void NameNode(Node& node) {
    std::string base = StrCat(absl::AsciiStrToLower(node.op), "_", node.file_index);
    for (const ValueId output : node.outputs) {
      if (!output.valid()) continue;
      base = g_.value(output).name;
      break;
    }
    node.name = base;
    // Many nodes may want one name, if outputs are defined twice: none starts from the first.
    while (nodes_.contains(node.name)) node.name = StrCat(base, "_", ++suffixes_[base]);
    nodes_.emplace(node.name, NodeId(node.file_index));
  }

  void ReadOp(const JsonReader& reader, Node& node) {
    node.op = reader.String(256).value_or("");
    if (!node.op.empty() && !IsOpName(node.op)) {
      reader.Error("not the name of an op", "letters, digits and '_', after a \"domain.\" or none",
                   reader.Describe());
    }
  }

  void ReadResults(const JsonReader& list, Node& node, NodeId id) {
    list.ForEachElement([&](const JsonReader& element) {
      const int32_t index = static_cast<int32_t>(node.outputs.size());
      ValueId& output = node.outputs.emplace_back();
      if (element.IsNull()) return;
      const std::optional<std::string_view> name = ReadName(element);
      if (!name.has_value()) return;
      output = names_.Define(*name, element, ValueKind::kResult);
      Value& value = g_.value(output);
      value.producer = id;
      value.result_index = index;
    });
  }

  void ReadSubgraphs(const JsonReader& reader, Node& node) {
    reader.ForEachMember([&](std::string_view name, const JsonReader& member) {
      if (name.empty()) member.Error("a nested graph has no name");
      Subgraph& sub = node.subgraphs.emplace_back();
      sub.name = std::string(name);
      sub.graph.file = g_.file;
      sub.graph.directory = g_.directory;
      GraphReader(member, symbols_, this, sub.graph).Read();
    });
  }

  void ReadDevice(const JsonReader& reader, Node& node) {
    node.device = reader.String().value_or("");
    if (node.device.empty()) return;
    const auto device = ParseDeviceName(node.device);
    if (!device.ok() || (device->first != "cpu" && device->first != "cuda")) {
      reader.Error("not a device", "\"cpu:<index>\" or \"cuda:<index>\"", reader.Describe());
    }
  }

  // The names that a node refers to.
  struct Uses {
    std::optional<JsonReader> inputs, after;
  };

  void ReadUses(Node& node, const Uses& uses) {
    if (uses.inputs.has_value()) {
      if (uses.inputs->IsArray()) node.inputs.reserve(uses.inputs->value().size);
      uses.inputs->ForEachElement([&](const JsonReader& element) {
        node.inputs.push_back(element.IsNull() ? ValueId()
                                               : names_.Use(element).value_or(ValueId()));
      });
    }
    if (!uses.after.has_value()) return;
    uses.after->ForEachElement([&](const JsonReader& element) {
      const std::optional<std::string_view> name = ReadName(element);
      if (!name.has_value()) return;
      const auto found = nodes_.find(AbslView(*name));
      if (found != nodes_.end()) {
        node.after.push_back(found->second);
        return;
      }
      std::vector<std::string> known;
      if (!element.diagnostics().full()) {
        for (const Node& other : g_.nodes) known.push_back(other.name);
      }
      element.Error(StrCat("there is no node '", *name, "'"), "", "", DidYouMean(*name, known));
    });
  }

  // --- What refers to values ---
  void ReadOutputs(const JsonReader& list) {
    absl::flat_hash_set<ValueId> listed;
    list.ForEachElement([&](const JsonReader& element) {
      const auto id = names_.Use(element);
      if (!id.has_value()) return;
      g_.outputs.push_back(*id);
      if (!listed.insert(*id).second) {
        element.Error(StrCat("value '", g_.value(*id).name, "' is listed twice"));
      }
    });
  }

  void ReadUpdates(const JsonReader& list) {
    absl::flat_hash_set<ValueId> updated;
    list.ForEachElement([&](const JsonReader& reader) {
      reader.OnlyKeys({"param", "value"}, /*extensions=*/false);
      const auto param = reader.Required("param"), value = reader.Required("value");
      const auto param_id = param.has_value() ? names_.Use(*param) : std::nullopt;
      const auto value_id = value.has_value() ? names_.Use(*value) : std::nullopt;
      if (!param_id.has_value() || !value_id.has_value()) return;
      if (g_.value(*param_id).kind != ValueKind::kParam) {
        param->Error(
            StrCat("'", g_.value(*param_id).name, "' is no param: only those are updated"));
        return;
      }
      if (!updated.insert(*param_id).second) {
        param->Error(StrCat("param '", g_.value(*param_id).name, "' is updated twice"));
      }
      g_.updates.push_back({*param_id, *value_id});
    });
  }

  void ReadTypes(const JsonReader& reader) {
    reader.ForEachMember([&](std::string_view name, const JsonReader& member) {
      const std::optional<ValueId> id = names_.UseKey(name, member);
      if (!id.has_value()) return;
      if (g_.value(*id).kind != ValueKind::kResult) {
        member.Error(StrCat("'", name, "' is no result: its type stands where it is declared"));
        return;
      }
      SetType(member, /*may_be_bounded=*/true, *id);
    });
  }

  // Before values are read: how much data there are of one depends on them. Faults are left to
  // ReadShardings.
  void ReadShardingsByName(const JsonReader& reader) {
    if (!reader.IsObject()) return;
    reader.ForEachMember([&](std::string_view name, const JsonReader& member) {
      const std::optional<std::string> text = member.String(kMaxText, /*allow_empty=*/true);
      if (!text.has_value()) return;
      absl::StatusOr<Sharding> sharding = ParseSharding(*text, g_.mesh);
      if (sharding.ok()) sharding_by_name_.insert_or_assign(std::string(name), *sharding);
    });
  }

  void ReadShardings(const JsonReader& reader) {
    reader.ForEachMember([&](std::string_view name, const JsonReader& member) {
      const std::optional<ValueId> id = names_.UseKey(name, member);
      const std::optional<std::string> text = member.String(kMaxText, /*allow_empty=*/true);
      if (!id.has_value() || !text.has_value()) return;
      absl::StatusOr<Sharding> sharding = ParseSharding(*text, g_.mesh);
      if (sharding.ok()) {
        g_.shardings[*id] = *std::move(sharding);
      } else {
        member.Error(StdView(sharding.status().message()));
      }
    });
  }

  void OrderNodes() {
    for (const std::vector<NodeId>& cycle : SortNodes(g_)) {
      const NodeId first = *std::min_element(cycle.begin(), cycle.end());
      const JsonValue* value = reader_.document().FirstChild(members_[kNodes]->value());
      for (int32_t i = 0; i < first.index; ++i) value = reader_.document().Next(*value);
      JsonReader(reader_.document(), reader_.diagnostics(), *value)
          .Error(StrCat("nodes wait for each other: ", DescribeCycle(g_, cycle)));
    }
  }

  const JsonReader& reader_;
  const SymbolValues& symbols_;
  Graph& g_;
  const GraphReader* const outer_;
  std::optional<JsonReader> members_[kNumGraphKeys];
  ValueNames names_;
  absl::flat_hash_set<std::string> weight_keys_;
  absl::flat_hash_map<std::string, Sharding> sharding_by_name_;  // of a graph with local types
  absl::flat_hash_map<absl::string_view, NodeId> nodes_;  // names lie in the document or in g_
  absl::flat_hash_map<std::string, int> suffixes_;        // tried last, by name
  std::vector<Uses> uses_;                                // by node
};

// Reads the outermost graph. `unbound` takes complaints about symbols, which are not the file's
// fault; with any of them the rest is not read.
void ReadOutermost(const JsonReader& reader, const GraphLoadOptions& options, Graph& graph,
                   std::vector<std::string>& unbound) {
  if (!reader.HasFormat("millrace-graph")) return;
  graph.file = reader.document().file();
  graph.directory = DirectoryOf(graph.file);
  // A whole string: g++ 12 at -O3 misreads the assignment of a literal (-Wrestrict).
  if (graph.directory.empty() && !graph.file.empty()) graph.directory = std::string(".");
  graph.symbols = ReadSymbols(reader.Optional("symbols"), graph.file, options.symbols, unbound);
  if (!unbound.empty()) return;
  SymbolValues symbols;
  for (const Symbol& symbol : graph.symbols) symbols[symbol.name] = symbol.value;
  GraphReader(reader, symbols, nullptr, graph).Read();
  if (reader.diagnostics().ok()) VerifyGraph(graph, reader.diagnostics());
}

}  // namespace

absl::StatusOr<Graph> ParseGraphJson(const JsonDocument& document,
                                     const GraphLoadOptions& options) {
  Diagnostics diagnostics;
  std::vector<std::string> unbound;
  Graph graph;
  ReadOutermost(JsonReader(document, diagnostics), options, graph, unbound);
  MILLRACE_RETURN_IF_ERROR(diagnostics.ToStatus());
  if (!unbound.empty()) return UsageError(absl::StrJoin(unbound, "\n"));
  return graph;
}

absl::StatusOr<Graph> LoadGraph(const std::string& path, const GraphLoadOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path));
  return ParseGraphJson(document, options);
}

absl::StatusOr<Graph> ParseGraphJson(std::string json, std::string file,
                                     const GraphLoadOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(std::move(json), std::move(file)));
  return ParseGraphJson(document, options);
}

std::optional<Graph> ReadGraph(const JsonReader& reader, const GraphLoadOptions& options) {
  const int64_t before = reader.diagnostics().total();
  std::vector<std::string> unbound;
  Graph graph;
  ReadOutermost(reader, options, graph, unbound);
  for (const Symbol& symbol : graph.symbols) {
    if (unbound.empty() || symbol.value >= 0) continue;
    reader.Error(StrCat("symbol '", symbol.name, "' has no value"), "\"bound\" or \"default\"");
  }
  if (reader.diagnostics().total() > before) return std::nullopt;
  return graph;
}

}  // namespace millrace
