#include "tools/cut_graph.h"

#include <algorithm>

namespace millrace {
namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, const GraphCut& cut)
      : graph_(graph),
        cut_(cut),
        needed_(graph.values.size(), 0),
        loose_(graph.values.size(), 0),
        new_id_(graph.values.size()) {
    for (const ValueId id : cut.loose) loose_[id.index] = 1;
  }

  Graph Run() {
    MarkNeeded();
    CopyHeader();
    for (const ValueId id : graph_.inputs) {
      if (needed_[id.index] || cut_.keep_inputs) result_.inputs.push_back(Copy(id));
    }
    for (const ValueId id : graph_.params) {
      if (needed_[id.index]) result_.params.push_back(CopyWithData(id));
    }
    for (const ValueId id : graph_.constants) {
      if (needed_[id.index]) result_.constants.push_back(CopyWithData(id));
    }
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (loose_[v] && needed_[v]) AddLoose(ValueId(v));
    }
    CopyNodes();
    for (const ValueId id : cut_.outputs) result_.outputs.push_back(NewId(id));
    for (const Update& update : cut_.updates) {
      result_.updates.push_back({NewId(update.param), NewId(update.value)});
    }
    return std::move(result_);
  }

 private:
  ValueId Resolve(ValueId id) const {
    for (auto it = cut_.instead.find(id); it != cut_.instead.end(); it = cut_.instead.find(id)) {
      id = it->second;
    }
    return id;
  }
  ValueId NewId(ValueId id) const { return id.valid() ? new_id_[Resolve(id).index] : id; }
  void Need(ValueId id) {
    if (id.valid()) needed_[Resolve(id).index] = 1;
  }

  bool IsNeeded(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return id.valid() && needed_[id.index] && !loose_[id.index];
    });
  }

  void MarkNeeded() {
    for (const ValueId id : cut_.outputs) Need(id);
    for (const Update& update : cut_.updates) {
      Need(update.param);
      Need(update.value);
    }
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      if (!IsNeeded(graph_.nodes[n])) continue;
      for (const ValueId id : graph_.nodes[n].inputs) Need(id);
    }
  }

  void CopyHeader() {
    result_.name = graph_.name;
    result_.opset = graph_.opset;
    result_.mesh = graph_.mesh;
    result_.weight_files = graph_.weight_files;
    result_.file = graph_.file;
    result_.directory = graph_.directory;
  }

  ValueId Copy(ValueId id) {
    new_id_[id.index] = ValueId(result_.values.size());
    result_.values.push_back(graph_.value(id));
    const auto sharding = graph_.shardings.find(id);
    if (sharding != graph_.shardings.end()) {
      result_.shardings[new_id_[id.index]] = sharding->second;
    }
    return new_id_[id.index];
  }

  ValueId CopyWithData(ValueId id) {
    const ValueId copy = Copy(id);
    result_.value(copy).data = static_cast<int32_t>(result_.data.size());
    result_.data.push_back(graph_.data_of(id));
    return copy;
  }

  void AddLoose(ValueId id) {
    const ValueId copy = Copy(id);
    Value& value = result_.value(copy);
    value.producer = NodeId();
    value.result_index = -1;
    value.bounded = false;
    value.kind = cut_.zeros ? ValueKind::kConstant : ValueKind::kInput;
    if (!cut_.zeros) {
      result_.inputs.push_back(copy);
      return;
    }
    value.data = static_cast<int32_t>(result_.data.size());
    DataSource zero;
    zero.kind = DataSource::Kind::kSplat;
    zero.tensor = Tensor::Zeros({value.type.dtype, {}});
    result_.data.push_back(zero);
    result_.constants.push_back(copy);
  }

  void CopyNodes() {
    std::vector<NodeId> new_node(graph_.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!IsNeeded(graph_.nodes[n])) continue;
      new_node[n] = NodeId(result_.nodes.size());
      Node node = graph_.nodes[n];
      for (ValueId& id : node.inputs) id = NewId(id);
      for (ValueId& id : node.outputs) id = CopyResult(id, new_node[n]);
      std::vector<NodeId> after;
      for (const NodeId before : node.after) {
        if (new_node[before.index].valid()) after.push_back(new_node[before.index]);
      }
      node.after = std::move(after);
      result_.nodes.push_back(std::move(node));
    }
  }

  // A result that was cut loose has its name no more.
  ValueId CopyResult(ValueId id, NodeId producer) {
    if (!id.valid() || loose_[id.index]) return ValueId();
    const ValueId copy = Copy(id);
    result_.value(copy).producer = producer;
    return copy;
  }

  const Graph& graph_;
  const GraphCut& cut_;
  std::vector<uint8_t> needed_, loose_;
  std::vector<ValueId> new_id_;
  Graph result_;
};

}  // namespace

GraphCut WholeOf(const Graph& graph) {
  GraphCut cut;
  cut.outputs = graph.outputs;
  cut.updates = graph.updates;
  return cut;
}

Graph CutGraph(const Graph& graph, const GraphCut& cut) { return Cutter(graph, cut).Run(); }

}  // namespace millrace
