// Cells are cut where a single activation is alive: between two nodes in order, one value made
// before is read after. What depends on no param (masks, positions) is free to be computed on every
// device and is left out; so are inputs, which every stage can be given.
//
// Two cells are of one class when their nodes are alike one by one: op, attributes, types, and
// where in the cell each operand comes from. Deep models have a handful of classes, which is why
// planning does not take longer for more layers.
#include "passes/parallel/auto_cells.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "graph/strings.h"
#include "graph/target.h"
#include "ops/op_def.h"

namespace millrace {
namespace {

// Samples of all inputs; why there are none otherwise.
int64_t BatchOf(const Graph& graph, std::string& why_not) {
  std::optional<int64_t> batch;
  for (const ValueId input : graph.inputs) {
    const Shape& shape = graph.value(input).type.shape;
    const std::string& name = graph.value(input).name;
    if (shape.rank() == 0) {
      why_not = StrCat("input '", name, "' has no dims");
    } else if (batch && *batch != shape[0]) {
      why_not = StrCat("input '", name, "' has ", shape[0], " samples where others have ", *batch);
    } else {
      batch = shape[0];
    }
  }
  return std::max<int64_t>(1, batch.value_or(1));
}

bool IsData(const Graph& graph, ValueId value) {
  return graph.value(value).kind == ValueKind::kParam ||
         graph.value(value).kind == ValueKind::kConstant;
}

// Whether `rule` cuts the node by samples, given the batch dims of its operands. Operands that are
// the same for all samples stay whole.
bool CutsSamples(const Node& node, const ShardingRule& rule,
                 const std::vector<int32_t>& batch_dim) {
  using Kind = AxisSharding::Kind;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const int32_t dim = batch_dim[node.inputs[i].index];
    const AxisSharding& in = rule.inputs[i];
    if (dim < 0 ? in.kind != Kind::kReplicate : in.kind != Kind::kShard || in.dim != dim) {
      return false;
    }
  }
  return std::all_of(rule.outputs.begin(), rule.outputs.end(),
                     [](const AxisSharding& out) { return out.kind == Kind::kShard; });
}

// Why samples cannot be followed to the end; empty: they can.
std::string FollowSamples(const Graph& graph, PartitionModel& model) {
  for (const ValueId input : graph.inputs) model.batch_dim[input.index] = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input.valid() && model.batch_dim[input.index] >= 0;
    });
    if (!any) continue;
    bool found = false;
    for (const ShardingRule& rule : ShardingRulesOf(QueryFor(graph, NodeId(n)))) {
      if (!CutsSamples(node, rule, model.batch_dim)) continue;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (node.outputs[o].valid()) model.batch_dim[node.outputs[o].index] = rule.outputs[o].dim;
      }
      found = true;
      break;
    }
    if (!found) return StrCat("node '", node.name, "' (", node.op, ") cannot be cut by samples");
  }
  return "";
}

void FindSamples(const Graph& graph, PartitionModel& model) {
  model.batch_dim.assign(graph.values.size(), -1);
  model.batch = BatchOf(graph, model.whole_batch_because);
  if (model.whole_batch_because.empty()) model.whole_batch_because = FollowSamples(graph, model);
  if (model.whole_batch_because.empty()) return;
  model.batch_dim.assign(graph.values.size(), -1);
  model.batch = 1;
}

void FindLearned(const Graph& graph, PartitionModel& model) {
  model.learned.assign(graph.values.size(), false);
  for (const ValueId param : graph.params) model.learned[param.index] = true;
  for (const Node& node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input.valid() && model.learned[input.index];
    });
    for (const ValueId output : node.outputs) {
      if (output.valid()) model.learned[output.index] = any;
    }
  }
}

// By value: the last node that reads it, -1: none; outputs of the graph are read at the end.
std::vector<int32_t> LastReads(const Graph& graph) {
  std::vector<int32_t> last(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId input : graph.nodes[n].inputs) {
      if (input.valid()) last[input.index] = static_cast<int32_t>(n);
    }
  }
  for (const ValueId output : graph.outputs) {
    last[output.index] = static_cast<int32_t>(graph.nodes.size());
  }
  return last;
}

// By value: it depends on an input of the graph. What does not is no activation to hand on.
std::vector<bool> FindFed(const Graph& graph) {
  std::vector<bool> fed(graph.values.size(), false);
  for (const ValueId input : graph.inputs) fed[input.index] = true;
  for (const Node& node : graph.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return input.valid() && fed[input.index]; });
    for (const ValueId output : node.outputs) {
      if (output.valid()) fed[output.index] = any;
    }
  }
  return fed;
}

void CutChain(const Graph& graph, PartitionModel& model) {
  const std::vector<int32_t> last = LastReads(graph);
  const std::vector<bool> fed = FindFed(graph);
  std::vector<ValueId> live;  // activations, in order
  PartitionCell cell;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    bool learned = false;
    for (const ValueId output : node.outputs) {
      if (!output.valid() || !model.learned[output.index]) continue;
      learned = true;
      if (last[output.index] > static_cast<int32_t>(n)) live.push_back(output);
    }
    if (!learned) continue;
    cell.nodes.push_back(NodeId(n));
    std::erase_if(live, [&](ValueId v) { return last[v.index] <= static_cast<int32_t>(n); });
    if (live.size() != 1 || !fed[live[0].index] ||
        last[live[0].index] >= static_cast<int32_t>(graph.nodes.size())) {
      continue;
    }
    cell.output = live[0];
    model.cells.push_back(std::exchange(cell, {}));
    cell.input = live[0];
  }
  if (!cell.nodes.empty()) {
    model.cells.push_back(std::move(cell));
  } else if (!model.cells.empty()) {
    model.cells.back().output = {};
  }
}

// A chain of many one-node cells is cut more finely than a pipeline needs, but classes make that
// cheap. What a cell is, but for names and weights.
std::string DescribeCell(const Graph& graph, const PartitionModel& model,
                         const PartitionCell& cell) {
  absl::flat_hash_map<int32_t, int32_t> numbers;
  std::string text = StrCat(cell.input.valid(), cell.output.valid(), "|");
  const auto number = [&](ValueId value) {
    return numbers.try_emplace(value.index, static_cast<int32_t>(numbers.size())).first->second;
  };
  if (cell.input.valid()) number(cell.input);
  for (const NodeId id : cell.nodes) {
    const Node& node = graph.node(id);
    StrAppend(&text, QueryToJson(QueryFor(graph, id)));
    for (const ValueId input : node.inputs) {
      if (!input.valid()) {
        StrAppend(&text, ",-");
      } else if (IsData(graph, input) || !model.learned[input.index]) {
        StrAppend(&text, ",d", model.learned[input.index], model.batch_dim[input.index]);
      } else {
        StrAppend(&text, ",", number(input));
      }
    }
    for (const ValueId output : node.outputs) {
      if (output.valid()) StrAppend(&text, ">", number(output));
    }
  }
  if (cell.output.valid()) StrAppend(&text, "=", number(cell.output));
  return text;
}

}  // namespace

absl::StatusOr<PartitionModel> FindCells(const Graph& graph) {
  PartitionModel model;
  FindSamples(graph, model);
  FindLearned(graph, model);
  CutChain(graph, model);
  if (model.cells.empty()) return BadInputError("no node of the graph depends on a param");
  std::map<std::string, int32_t> classes;
  for (size_t c = 0; c < model.cells.size(); ++c) {
    const int32_t next = static_cast<int32_t>(classes.size());
    const auto [found, fresh] =
        classes.try_emplace(DescribeCell(graph, model, model.cells[c]), next);
    model.cells[c].cell_class = found->second;
    if (fresh) model.class_example.push_back(static_cast<int32_t>(c));
  }
  return model;
}

}  // namespace millrace
