#include "graph/verify.h"

#include "absl/container/flat_hash_set.h"
#include "graph/strings.h"

namespace millrace {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, Diagnostics& diagnostics) : g_(graph), diagnostics_(diagnostics) {
    for (const WeightFile& file : graph.weight_files) weight_keys_.insert(file.key);
  }

  void Run(int depth) {
    nested_ = depth > 0;
    if (depth > kMaxGraphNesting) {
      Report({}, "", StrCat("graphs are nested more than ", kMaxGraphNesting, " deep"));
      return;
    }
    if (!IdsInRange()) return;  // nothing else is safe to look at
    CheckValues();
    CheckNodes();
    CheckOutputsAndUpdates();
    CheckShardings();
    for (const Node& node : g_.nodes) CheckSubgraphs(node, depth);
  }

 private:
  void Report(FilePosition position, std::string pointer, std::string message) {
    Diagnostic d;
    d.file = g_.file;
    d.position = position;
    d.pointer = std::move(pointer);
    d.message = std::move(message);
    diagnostics_.Add(std::move(d));
  }
  void Report(const Node& node, std::string message) {
    const std::string pointer = node.file_index >= 0 ? StrCat("/nodes/", node.file_index) : "";
    Report(node.position, pointer, StrCat("node '", node.name, "': ", message));
  }
  void Report(const Value& value, std::string message) {
    Report(value.position, "", StrCat("value '", value.name, "': ", message));
  }

  bool InRange(ValueId id) const {
    return id.valid() && id.index < static_cast<int32_t>(g_.values.size());
  }

  bool IdsInRange() {
    const int64_t before = diagnostics_.total();
    for (const Node& node : g_.nodes) {
      for (ValueId id : node.inputs) {
        if (id.valid() && !InRange(id)) Report(node, "an input id is out of range");
      }
      for (ValueId id : node.outputs) {
        if (id.valid() && !InRange(id)) Report(node, "an output id is out of range");
      }
    }
    for (const auto* list : {&g_.inputs, &g_.params, &g_.constants, &g_.outputs}) {
      for (ValueId id : *list) {
        if (!InRange(id))
          Report({}, "", "a graph input, param, constant or output id is out of range");
      }
    }
    for (const Update& update : g_.updates) {
      if (!InRange(update.param) || !InRange(update.value)) {
        Report({}, "", "an update's id is out of range");
      }
    }
    for (const Value& value : g_.values) {
      if (value.kind == ValueKind::kResult &&
          (!value.producer.valid() ||
           value.producer.index >= static_cast<int32_t>(g_.nodes.size()))) {
        Report(value, "nothing produces it");
      }
    }
    return diagnostics_.total() == before;
  }

  void CheckValues() {
    absl::flat_hash_set<absl::string_view> names;
    names.reserve(g_.values.size());
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const Value& value = g_.values[i];
      if (value.name.empty()) Report(value, "has no name");
      if (!names.insert(value.name).second) Report(value, "the name is used twice");
      CheckType(value);
      CheckData(value, GlobalType(g_, ValueId(i)));
    }
    std::vector<uint8_t> listed(g_.values.size(), 0);
    CheckListed(g_.inputs, ValueKind::kInput, "inputs", listed);
    CheckListed(g_.params, ValueKind::kParam, "params", listed);
    CheckListed(g_.constants, ValueKind::kConstant, "constants", listed);
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const Value& value = g_.values[i];
      if (value.kind != ValueKind::kResult && listed[i] == 0) {
        Report(value, "is missing from the list of its kind");
      }
      if (value.kind == ValueKind::kResult) CheckResult(ValueId(i));
    }
  }

  void CheckListed(const std::vector<ValueId>& list, ValueKind kind, std::string_view what,
                   std::vector<uint8_t>& listed) {
    for (ValueId id : list) {
      if (g_.value(id).kind != kind) Report(g_.value(id), StrCat("does not belong in ", what));
      if (listed[id.index]++ > 0) Report(g_.value(id), StrCat("is listed twice in ", what));
    }
  }

  void CheckType(const Value& value) {
    const bool may_be_open =
        value.kind == ValueKind::kResult || (nested_ && value.kind == ValueKind::kInput);
    if (!value.typed && !may_be_open) Report(value, "has no type");
    if (value.typed && !CheckedByteSize(value.type).has_value()) {
      Report(value, StrCat("its type ", ToString(value.type), " is not a possible size"));
    }
  }

  void CheckResult(ValueId id) {
    const Value& value = g_.value(id);
    const Node& producer = g_.node(value.producer);
    const int32_t i = value.result_index;
    if (i < 0 || i >= static_cast<int32_t>(producer.outputs.size()) || producer.outputs[i] != id) {
      Report(value, StrCat("node '", producer.name, "' does not give it back as its output ", i));
    }
  }

  // `whole`: the type that its data must have.
  void CheckData(const Value& value, const TensorType& whole) {
    const bool has_data = value.kind == ValueKind::kParam || value.kind == ValueKind::kConstant;
    if (!has_data) {
      if (value.data >= 0) Report(value, "only params and constants have data");
      return;
    }
    if (value.data < 0 || value.data >= static_cast<int32_t>(g_.data.size())) {
      Report(value, "has no data");
      return;
    }
    const DataSource& source = g_.data[value.data];
    switch (source.kind) {
      case DataSource::Kind::kNone:
        Report(value, "has no data");
        break;
      case DataSource::Kind::kInline:
      case DataSource::Kind::kBase64:
        if (!source.tensor.has_data() || source.tensor.type() != whole) {
          Report(value, StrCat("has data of type ", ToString(source.tensor.type()), ", not ",
                               ToString(whole)));
        }
        break;
      case DataSource::Kind::kSplat:
        if (!source.tensor.has_data() || source.tensor.num_elements() != 1 ||
            source.tensor.dtype() != value.type.dtype) {
          Report(value, "its splat is not one element of its dtype");
        }
        break;
      case DataSource::Kind::kFile:
        if (!weight_keys_.contains(source.file)) {
          Report(value, StrCat("the graph has no weight file '", source.file, "'"));
        }
        break;
      case DataSource::Kind::kInit:
        break;
    }
  }

  void CheckNodes() {
    absl::flat_hash_set<absl::string_view> names;
    names.reserve(g_.nodes.size());
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const Node& node = g_.nodes[n];
      if (node.name.empty()) Report(node, "has no name");
      if (node.op.empty()) Report(node, "has no op");
      if (!names.insert(node.name).second) Report(node, "the name is used twice");
      for (ValueId id : node.inputs) {
        if (!id.valid()) continue;
        const Value& value = g_.value(id);
        if (value.kind == ValueKind::kResult && value.producer.index >= static_cast<int32_t>(n)) {
          Report(node, StrCat("reads '", value.name, "' before node '",
                              g_.node(value.producer).name, "' makes it"));
        }
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (!node.outputs[i].valid()) continue;
        const Value& value = g_.value(node.outputs[i]);
        if (value.kind != ValueKind::kResult || value.producer != NodeId(n) ||
            value.result_index != static_cast<int32_t>(i)) {
          Report(node, StrCat("its output '", value.name, "' is not its to produce"));
        }
      }
      for (NodeId before : node.after) {
        if (!before.valid() || before.index >= static_cast<int32_t>(n)) {
          Report(node, "runs `after` a node that does not come before it");
        }
      }
    }
  }

  void CheckOutputsAndUpdates() {
    absl::flat_hash_set<ValueId> updated;
    for (const Update& update : g_.updates) {
      const Value& param = g_.value(update.param);
      const Value& value = g_.value(update.value);
      if (param.kind != ValueKind::kParam) Report(param, "is updated, but is no param");
      if (!updated.insert(update.param).second) Report(param, "is updated twice");
      if (value.typed && param.typed && value.type != param.type) {
        Report(param, StrCat("of type ", ToString(param.type), " is updated with '", value.name,
                             "' of type ", ToString(value.type)));
      }
    }
    absl::flat_hash_set<ValueId> outputs;
    for (ValueId id : g_.outputs) {
      if (!outputs.insert(id).second) Report(g_.value(id), "is listed twice in outputs");
    }
  }

  void CheckShardings() {
    for (const auto& [id, sharding] : g_.shardings) {
      if (!InRange(id)) {
        Report({}, "", "a sharding's value id is out of range");
        continue;
      }
      const Value& value = g_.value(id);
      if (sharding.axes.size() != g_.mesh.axes.size()) {
        Report(value, "its sharding does not have one entry per mesh axis");
        continue;
      }
      for (const AxisSharding& axis : sharding.axes) {
        if (g_.local_types && value.bounded && axis.kind != AxisSharding::Kind::kReplicate) {
          Report(value, "is spread over devices, but its size is known only at run time");
        }
        if (axis.kind == AxisSharding::Kind::kShard && value.typed &&
            (axis.dim < 0 || axis.dim >= value.type.shape.rank())) {
          Report(value, StrCat("is sharded along dim ", axis.dim, ", but has rank ",
                               value.type.shape.rank()));
        }
      }
    }
  }

  void CheckSubgraphs(const Node& node, int depth) {
    for (const Subgraph& sub : node.subgraphs) {
      if (sub.name.empty()) Report(node, "a nested graph has no name");
      if (!sub.graph.updates.empty() || !sub.graph.params.empty()) {
        Report(node, StrCat("nested graph '", sub.name, "' has params of its own; pass them in"));
      }
      Verifier(sub.graph, diagnostics_).Run(depth + 1);
    }
  }

  const Graph& g_;
  Diagnostics& diagnostics_;
  bool nested_ = false;
  absl::flat_hash_set<std::string> weight_keys_;
};

}  // namespace

void VerifyGraph(const Graph& graph, Diagnostics& diagnostics) {
  Verifier(graph, diagnostics).Run(0);
}

absl::Status VerifyGraphAfter(const Graph& graph, std::string_view pass) {
  Diagnostics diagnostics;
  VerifyGraph(graph, diagnostics);
  if (diagnostics.ok()) return absl::OkStatus();
  return InternalError(
      StrCat("pass '", pass, "' broke the graph:\n", StdView(diagnostics.ToStatus().message())));
}

}  // namespace millrace
