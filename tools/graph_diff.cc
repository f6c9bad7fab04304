#include "tools/graph_diff.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "graph/strings.h"
#include "graph/weights.h"
#include "passes/attr_bits.h"
#include "tools/attr_text.h"

namespace millrace {
namespace {

using Meaning = size_t;  // a hash: equal for what means the same

template <typename... T>
Meaning Combine(const T&... parts) {
  return absl::HashOf(parts...);
}

Meaning MeaningOf(const TensorType& type) {
  const auto dims = type.shape.dims();
  return Combine(static_cast<int>(type.dtype), std::vector<int64_t>(dims.begin(), dims.end()));
}

// What a param or constant holds. Seeded data are not generated: their seeds are compared.
Meaning MeaningOfData(const Graph& graph, ValueId id, WeightStore& weights) {
  const DataSource& source = graph.data_of(id);
  const Meaning type = MeaningOf(graph.value(id).type);
  if (source.kind == DataSource::Kind::kInit) {
    const Init& init = source.init;
    return Combine(type, static_cast<int>(init.kind), init.seed, init.low, init.high, init.std);
  }
  const absl::StatusOr<Tensor> tensor = weights.Get(id);
  if (!tensor.ok()) return Combine(type, source.file, source.tensor_name);
  const auto* bytes = reinterpret_cast<const char*>(tensor->bytes());
  return Combine(type, absl::string_view(bytes, static_cast<size_t>(tensor->size_bytes())));
}

// Meanings of all values and nodes of a graph, from its inputs on.
struct GraphMeaning {
  std::vector<Meaning> values, nodes;
  Meaning whole = 0;
};

GraphMeaning MeaningOf(const Graph& graph);

Meaning MeaningOf(const Graph& graph, const Node& node, const std::vector<Meaning>& values) {
  Meaning meaning = Combine(node.op, HashOfBits(node.attrs), node.device, node.stream);
  for (const ValueId input : node.inputs) {
    meaning = Combine(meaning, input.valid() ? values[input.index] : Meaning{0});
  }
  for (const ValueId output : node.outputs) {
    meaning = Combine(meaning, output.valid() ? MeaningOf(graph.value(output).type) : Meaning{0});
  }
  for (const Subgraph& body : node.subgraphs) {
    meaning = Combine(meaning, body.name, MeaningOf(body.graph).whole);
  }
  return meaning;
}

GraphMeaning MeaningOf(const Graph& graph) {
  GraphMeaning result;
  result.values.resize(graph.values.size());
  WeightStore weights(graph);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.kind == ValueKind::kResult) continue;
    Meaning meaning = Combine(static_cast<int>(value.kind), MeaningOf(value.type));
    if (value.kind != ValueKind::kConstant) meaning = Combine(meaning, value.name);
    if (graph.local_types) {
      const auto sharding = graph.shardings.find(ValueId(i));
      if (sharding != graph.shardings.end()) {
        meaning = Combine(meaning, ToString(sharding->second, graph.mesh));
      }
    }
    if (value.data >= 0) meaning = Combine(meaning, MeaningOfData(graph, ValueId(i), weights));
    result.values[i] = meaning;
  }
  for (const Node& node : graph.nodes) {
    const Meaning meaning = MeaningOf(graph, node, result.values);
    result.nodes.push_back(meaning);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) result.values[node.outputs[i].index] = Combine(meaning, i);
    }
  }
  for (const ValueId output : graph.outputs) {
    result.whole = Combine(result.whole, result.values[output.index]);
  }
  for (const Update& update : graph.updates) {
    result.whole += Combine(result.values[update.param.index], result.values[update.value.index]);
  }
  for (const Meaning node : result.nodes) result.whole += node;  // in any order
  return result;
}

class GraphComparison {
 public:
  GraphComparison(const Graph& a, const Graph& b)
      : a_(a),
        b_(b),
        a_means_(MeaningOf(a)),
        b_means_(MeaningOf(b)),
        in_b_(a.values.size()),
        node_in_b_(a.nodes.size()) {
    diff_.value_in_a.resize(b.values.size());
    diff_.node_in_a.resize(b.nodes.size());
  }

  GraphDiff Run() && {
    PairNamed(a_.inputs, b_.inputs, "input");
    PairNamed(a_.params, b_.params, "param");
    PairConstants();
    PairNodesOfOneMeaning();
    PairSimilarNodes();
    for (size_t i = 0; i < b_.nodes.size(); ++i) {
      if (!diff_.node_in_a[i].valid()) Add("node", b_.nodes[i], "only in B");
    }
    CompareOutputs();
    CompareUpdates();
    return std::move(diff_);
  }

 private:
  void Add(std::string kind, std::string where, std::string text) {
    diff_.differences.push_back({std::move(kind), std::move(where), std::move(text)});
  }
  void Add(std::string kind, const Node& node, std::string text) {
    Add(std::move(kind), StrCat(node.name, " (", node.op, ")"), std::move(text));
  }

  void Pair(ValueId a, ValueId b) {
    if (!a.valid() || !b.valid()) return;
    in_b_[a.index] = b;
    diff_.value_in_a[b.index] = a;
  }

  // Values that readers cannot tell apart: what was paired, or constants of the same data.
  bool Same(ValueId a, ValueId b) const {
    if (!a.valid() || !b.valid()) return a.valid() == b.valid();
    return in_b_[a.index] == b || (a_.value(a).kind == ValueKind::kConstant &&
                                   a_means_.values[a.index] == b_means_.values[b.index]);
  }

  void PairNamed(const std::vector<ValueId>& as, const std::vector<ValueId>& bs, const char* kind) {
    std::map<std::string, ValueId> by_name;
    for (const ValueId b : bs) by_name[b_.value(b).name] = b;
    for (const ValueId a : as) {
      const auto found = by_name.find(a_.value(a).name);
      if (found == by_name.end()) {
        Add(kind, a_.value(a).name, "only in A");
        continue;
      }
      const ValueId b = found->second;
      by_name.erase(found);
      Pair(a, b);
      CompareTypes(a, b);
      const bool same_type = a_.value(a).type == b_.value(b).type;
      if (same_type && a_means_.values[a.index] != b_means_.values[b.index]) {
        Add("data", a_.value(a).name, StrCat("the ", kind, " holds other data"));
      }
    }
    for (const ValueId b : bs) {
      if (by_name.contains(b_.value(b).name)) Add(kind, b_.value(b).name, "only in B");
    }
  }

  // One of several equal ones will do: Same() looks at data.
  void PairConstants() {
    absl::flat_hash_map<Meaning, ValueId> by_data;
    for (const ValueId a : a_.constants) by_data.emplace(a_means_.values[a.index], a);
    for (const ValueId b : b_.constants) {
      const auto found = by_data.find(b_means_.values[b.index]);
      if (found != by_data.end()) Pair(found->second, b);
    }
  }

  void CompareTypes(ValueId a, ValueId b) {
    const TensorType &of_a = a_.value(a).type, &of_b = b_.value(b).type;
    if (of_a == of_b) return;
    Add("type", a_.value(a).name, StrCat(ToString(of_a), " became ", ToString(of_b)));
  }

  void PairNodes(NodeId a, NodeId b) {
    node_in_b_[a.index] = b;
    diff_.node_in_a[b.index] = a;
    const Node &of_a = a_.node(a), &of_b = b_.node(b);
    for (size_t i = 0; i < std::min(of_a.outputs.size(), of_b.outputs.size()); ++i) {
      Pair(of_a.outputs[i], of_b.outputs[i]);
    }
  }

  // Where several mean the same, those of one name go together.
  void PairNodesOfOneMeaning() {
    absl::flat_hash_map<Meaning, std::vector<NodeId>> free;
    for (size_t i = b_.nodes.size(); i-- > 0;) free[b_means_.nodes[i]].push_back(NodeId(i));
    for (const bool by_name : {true, false}) {
      for (size_t i = 0; i < a_.nodes.size(); ++i) {
        const auto found = free.find(a_means_.nodes[i]);
        if (node_in_b_[i].valid() || found == free.end() || found->second.empty()) continue;
        std::vector<NodeId>& same = found->second;
        auto at = same.end() - 1;
        if (by_name) {
          at = std::find_if(same.begin(), same.end(),
                            [&](NodeId b) { return b_.node(b).name == a_.nodes[i].name; });
        }
        if (at == same.end()) continue;
        PairNodes(NodeId(i), *at);
        same.erase(at);
      }
    }
  }

  bool IsFree(NodeId b, const Node& like) const {
    return !diff_.node_in_a[b.index].valid() && b_.node(b).op == like.op;
  }

  bool ReadsTheSame(const Node& a, const Node& b) const {
    return std::ranges::equal(a.inputs, b.inputs,
                              [&](ValueId of_a, ValueId of_b) { return Same(of_a, of_b); });
  }

  // A node of B that was not paired and reads what `a` reads.
  std::optional<NodeId> FreeReaderOfTheSame(const Node& a) const {
    for (const ValueId input : a.inputs) {
      if (!input.valid() || !in_b_[input.index].valid()) continue;
      const auto readers = readers_in_b_.find(in_b_[input.index].index);
      if (readers == readers_in_b_.end()) return std::nullopt;
      for (const NodeId b : readers->second) {
        if (IsFree(b, a) && ReadsTheSame(a, b_.node(b))) return b;
      }
      return std::nullopt;
    }
    return std::nullopt;
  }

  // From the inputs on: what reads the same, else what is called the same.
  void PairSimilarNodes() {
    std::map<std::string, NodeId> by_name;
    for (size_t i = 0; i < b_.nodes.size(); ++i) {
      if (diff_.node_in_a[i].valid()) continue;
      by_name[b_.nodes[i].name] = NodeId(i);
      for (const ValueId input : b_.nodes[i].inputs) {
        if (input.valid()) readers_in_b_[input.index].push_back(NodeId(i));
      }
    }
    for (size_t i = 0; i < a_.nodes.size(); ++i) {
      if (node_in_b_[i].valid()) continue;
      const Node& node = a_.nodes[i];
      std::optional<NodeId> found = FreeReaderOfTheSame(node);
      const auto named = by_name.find(node.name);
      if (!found && named != by_name.end() && IsFree(named->second, node)) found = named->second;
      if (!found) {
        Add("node", node, "only in A");
        continue;
      }
      PairNodes(NodeId(i), *found);
      CompareNodes(node, b_.node(*found));
    }
  }

  void CompareNodes(const Node& a, const Node& b) {
    CompareOperands(a, b);
    CompareAttrs(a, b);
    for (size_t i = 0; i < std::min(a.outputs.size(), b.outputs.size()); ++i) {
      if (a.outputs[i].valid() && b.outputs[i].valid()) CompareTypes(a.outputs[i], b.outputs[i]);
    }
    if (a.device != b.device) {
      Add("request", a, StrCat("device: '", a.device, "' became '", b.device, "'"));
    }
    if (a.stream != b.stream) {
      Add("request", a, StrCat("stream: ", a.stream, " became ", b.stream));
    }
    for (size_t i = 0; i < std::min(a.subgraphs.size(), b.subgraphs.size()); ++i) {
      GraphDiff body = DiffGraphs(a.subgraphs[i].graph, b.subgraphs[i].graph);
      for (Difference& difference : body.differences) {
        difference.where = StrCat(a.name, "/", a.subgraphs[i].name, "/", difference.where);
        diff_.differences.push_back(std::move(difference));
      }
    }
  }

  static std::string NameOf(const Graph& graph, ValueId id) {
    return id.valid() ? StrCat("'", graph.value(id).name, "'") : "none";
  }

  void CompareOperands(const Node& a, const Node& b) {
    if (a.inputs.size() != b.inputs.size()) {
      Add("operand", a, StrCat(a.inputs.size(), " inputs became ", b.inputs.size()));
    }
    for (size_t i = 0; i < std::min(a.inputs.size(), b.inputs.size()); ++i) {
      if (Same(a.inputs[i], b.inputs[i])) continue;
      const bool constants = a.inputs[i].valid() && b.inputs[i].valid() &&
                             a_.value(a.inputs[i]).kind == ValueKind::kConstant &&
                             b_.value(b.inputs[i]).kind == ValueKind::kConstant;
      Add(constants ? "constant" : "operand", a,
          StrCat("input ", i, ": ", NameOf(a_, a.inputs[i]), " became ", NameOf(b_, b.inputs[i]),
                 constants ? ", of other data" : ""));
    }
  }

  void CompareAttrs(const Node& a, const Node& b) {
    if (SameBits(a.attrs, b.attrs)) return;
    std::map<std::string, std::pair<const AttrValue*, const AttrValue*>> both;
    for (const auto& [name, value] : a.attrs) both[name].first = &value;
    for (const auto& [name, value] : b.attrs) both[name].second = &value;
    const auto text = [](const AttrValue* value) { return value ? AttrText(*value) : "none"; };
    for (const auto& [name, values] : both) {
      Attrs of_a, of_b;
      if (values.first) of_a.Set(name, *values.first);
      if (values.second) of_b.Set(name, *values.second);
      if (SameBits(of_a, of_b)) continue;
      Add("attribute", a, StrCat(name, ": ", text(values.first), " became ", text(values.second)));
    }
  }

  void CompareOutputs() {
    if (a_.outputs.size() != b_.outputs.size()) {
      Add("output", a_.name, StrCat(a_.outputs.size(), " outputs became ", b_.outputs.size()));
    }
    for (size_t i = 0; i < std::min(a_.outputs.size(), b_.outputs.size()); ++i) {
      if (Same(a_.outputs[i], b_.outputs[i])) continue;
      Add("output", StrCat(i),
          StrCat(NameOf(a_, a_.outputs[i]), " became ", NameOf(b_, b_.outputs[i])));
    }
  }

  void CompareUpdates() {
    std::map<std::string, ValueId> by_param;
    for (const Update& update : b_.updates) by_param[b_.value(update.param).name] = update.value;
    for (const Update& update : a_.updates) {
      const std::string& param = a_.value(update.param).name;
      const auto found = by_param.find(param);
      if (found == by_param.end()) {
        Add("update", param, "only in A");
        continue;
      }
      if (!Same(update.value, found->second)) {
        Add("update", param,
            StrCat(NameOf(a_, update.value), " became ", NameOf(b_, found->second)));
      }
      by_param.erase(found);
    }
    for (const auto& [param, value] : by_param) Add("update", param, "only in B");
  }

  const Graph &a_, &b_;
  const GraphMeaning a_means_, b_means_;
  std::vector<ValueId> in_b_;      // by value of A
  std::vector<NodeId> node_in_b_;  // by node of A
  // By value of B, which of its nodes without a partner read it.
  absl::flat_hash_map<int32_t, std::vector<NodeId>> readers_in_b_;
  GraphDiff diff_;
};

}  // namespace

GraphDiff DiffGraphs(const Graph& a, const Graph& b) { return GraphComparison(a, b).Run(); }

}  // namespace millrace
