#include "passes/budget/graph_problem.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "graph/plan.h"
#include "graph/view.h"
#include "ops/op_def.h"
#include "passes/frozen_values.h"
#include "passes/graph_edit.h"
#include "passes/schedule/memory_order.h"

namespace millrace {
namespace {

// Constants of no more may be gone from the plan, with the views that read them.
constexpr int64_t kLittleTensorBytes = 1024;

int64_t AlignedBytes(const TensorType& type) {
  const int64_t bytes = ByteSize(type);
  return (bytes + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
}

bool HasKnownSizes(const Graph& graph, const Node& node) {
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *list) {
      if (id.valid() && graph.value(id).bounded) return false;
    }
  }
  return true;
}

class BudgetProblemMaker {
 public:
  BudgetProblemMaker(const Graph& graph, std::span<const NodeCost> costs)
      : graph_(graph),
        costs_(costs),
        in_init_(NodesForInit(graph)),
        is_awaited_(AwaitedMask(graph)),
        is_update_(graph.values.size(), 0),
        tensor_of_(graph.values.size(), -1) {
    for (const Update& update : graph.updates) is_update_[update.value.index] = 1;
  }

  GraphProblem Make() {
    for (const ValueId id : graph_.params) {
      result_.problem.fixed_bytes += AlignedBytes(TypeOf(id));
    }
    for (const ValueId id : graph_.constants) {
      const int64_t bytes = AlignedBytes(TypeOf(id));
      if (bytes > kLittleTensorBytes) result_.problem.fixed_bytes += bytes;
    }
    for (const ValueId id : graph_.inputs) AddTensor(id, -1);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) AddNode(NodeId(n));
    for (const ValueId id : graph_.outputs) Keep(id);
    for (const Update& update : graph_.updates) Keep(update.value);
    const std::vector<int32_t> last_reader = LastReaders();
    for (const Update& update : graph_.updates) {
      WriteOverParam(update, last_reader[update.param.index]);
    }
    return std::move(result_);
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  int32_t AddTensor(ValueId id, int32_t producer) {
    tensor_of_[id.index] = static_cast<int32_t>(result_.problem.tensors.size());
    result_.problem.tensors.push_back(
        {.size_bytes = AlignedBytes(TypeOf(id)), .producer = producer});
    result_.value_of_tensor.push_back(id);
    return tensor_of_[id.index];
  }

  void AddNode(NodeId id) {
    const Node& node = graph_.node(id);
    const auto op_index = static_cast<int32_t>(result_.problem.ops.size());
    if (in_init_[id.index] != 0) {
      for (const ValueId out : node.outputs) {
        if (out.valid()) result_.problem.fixed_bytes += AlignedBytes(TypeOf(out));
      }
      return;
    }
    BudgetOp op{.time_us = costs_[id.index].time_us,
                .workspace_bytes = costs_[id.index].workspace_bytes};
    for (const ValueId in : node.inputs) {
      if (!in.valid() || tensor_of_[in.index] < 0) continue;
      if (std::ranges::find(op.reads, tensor_of_[in.index]) == op.reads.end()) {
        op.reads.push_back(tensor_of_[in.index]);
      }
    }
    for (const ValueId out : node.outputs) {
      if (out.valid()) op.writes.push_back(AddTensor(out, op_index));
    }
    const OpDef* def = FindOp(node.op);
    op.can_repeat = def != nullptr && node.subgraphs.empty() && node.after.empty() &&
                    is_awaited_[id.index] == 0 && HasKnownSizes(graph_, node) &&
                    def->traits.deterministic && !def->traits.has_effects &&
                    !def->traits.host_call && def->traits.comm == CommKind::kNone;
    if (def != nullptr) AddSharing(node, def->traits, op);
    result_.problem.ops.push_back(std::move(op));
    result_.node_of_op.push_back(id);
  }

  // Views, and results that may be written over operands.
  void AddSharing(const Node& node, const OpTraits& traits, BudgetOp& op) {
    if (traits.view != ViewKind::kNone && traits.view != ViewKind::kJoin &&
        node.inputs[0].valid() && HasKnownSizes(graph_, node)) {
      for (size_t k = 0; k < node.outputs.size(); ++k) AddView(node, traits.view, k);
      return;
    }
    for (const auto& [output, input] : traits.in_place) {
      if (output >= std::ssize(node.outputs) || input >= std::ssize(node.inputs)) continue;
      const ValueId out = node.outputs[output], in = node.inputs[input];
      if (!out.valid() || !in.valid() || tensor_of_[in.index] < 0 || TypeOf(out) != TypeOf(in)) {
        continue;
      }
      op.in_place.push_back({tensor_of_[out.index], tensor_of_[in.index]});
    }
    if (traits.view != ViewKind::kJoin) return;
    for (const int32_t read : op.reads) op.in_place.push_back({op.writes[0], read});
  }

  void AddView(const Node& node, ViewKind kind, size_t k) {
    const ValueId out = node.outputs[k];
    if (!out.valid()) return;
    if (ViewPartsOf(kind, graph_, node, static_cast<int>(k)).size() != 1) return;
    const int32_t whole = tensor_of_[node.inputs[0].index];
    BudgetTensor& tensor = result_.problem.tensors[tensor_of_[out.index]];
    tensor.view_of = whole;  // -1: of a param, whose bytes are there always
    tensor.size_bytes = 0;
  }

  void Keep(ValueId id) {
    for (int32_t t = tensor_of_[id.index]; t >= 0; t = result_.problem.tensors[t].view_of) {
      result_.problem.tensors[t].is_kept = true;
    }
  }

  std::vector<int32_t> LastReaders() const {
    std::vector<int32_t> last(graph_.values.size(), -1);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const ValueId in : graph_.nodes[n].inputs) {
        if (in.valid()) last[in.index] = static_cast<int32_t>(n);
      }
    }
    return last;
  }

  void WriteOverParam(const Update& update, int32_t last_reader) {
    const int32_t tensor = tensor_of_[update.value.index];
    const Value& value = graph_.value(update.value);
    if (tensor < 0 || !value.producer.valid() || last_reader > value.producer.index) return;
    const Node& node = graph_.node(value.producer);
    // A node with other results, such as a normalization that also moves its statistics, may have to
    // run again, by the old version.
    if (!std::ranges::all_of(node.outputs, [&](ValueId out) {
          return !out.valid() || is_update_[out.index] != 0;
        })) {
      return;
    }
    const OpDef* def = FindOp(node.op);
    const bool may_write_over =
        def != nullptr && std::ranges::any_of(def->traits.in_place, [&](const InPlacePair& pair) {
          return pair.output == value.result_index && pair.input < std::ssize(node.inputs) &&
                 node.inputs[pair.input] == update.param && TypeOf(update.param) == value.type;
        });
    if (!may_write_over) return;
    BudgetTensor& kept = result_.problem.tensors[tensor];
    kept.size_bytes = 0;
    result_.problem.ops[kept.producer].can_repeat = false;
  }

  const Graph& graph_;
  const std::span<const NodeCost> costs_;
  const std::vector<uint8_t> in_init_, is_awaited_;
  std::vector<uint8_t> is_update_;  // by value
  std::vector<int32_t> tensor_of_;  // by value; -1: always there
  GraphProblem result_;
};

// --- Orders -------------------------------------------------------------------------------------
// What is written over a param comes after all that read the param; what has to stay in order does.
ScheduleProblem OrderingProblem(const Graph& graph, const GraphProblem& given) {
  const BudgetProblem& problem = given.problem;
  ScheduleProblem order;
  const std::vector<int32_t> storage = StorageOfTensors(problem);
  const std::vector<std::vector<int32_t>> readers = ReadersOfStorage(problem, storage);
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    const BudgetTensor& tensor = problem.tensors[t];
    order.results.push_back({.size_bytes = tensor.size_bytes,
                             .producer = tensor.producer,
                             .readers = readers[t],
                             .is_kept = tensor.is_kept});
  }
  std::vector<int32_t> op_of_node(graph.nodes.size(), -1);
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    op_of_node[given.node_of_op[o].index] = static_cast<int32_t>(o);
    order.tasks.push_back(
        {.time_us = problem.ops[o].time_us, .workspace_bytes = problem.ops[o].workspace_bytes});
    for (const int32_t read : problem.ops[o].reads) {  // of views
      if (storage[read] != read)
        order.edges.push_back({problem.tensors[read].producer, static_cast<int32_t>(o)});
    }
  }
  const std::vector<std::vector<NodeId>> consumers = ConsumersOf(graph);
  for (const Update& update : graph.updates) {
    const NodeId producer = graph.value(update.value).producer;
    if (!producer.valid() || op_of_node[producer.index] < 0) continue;
    for (const NodeId reader : consumers[update.param.index]) {
      const TaskEdge edge{op_of_node[reader.index], op_of_node[producer.index]};
      if (edge.before >= 0 && edge.before < edge.after) order.edges.push_back(edge);
    }
  }
  int32_t last = -1;
  for (size_t o = 0; o < problem.ops.size(); ++o) {
    const Node& node = graph.node(given.node_of_op[o]);
    const auto index = static_cast<int32_t>(o);
    for (const NodeId before : node.after) {
      if (op_of_node[before.index] >= 0) order.edges.push_back({op_of_node[before.index], index});
    }
    const OpDef* def = FindOp(node.op);
    if (def != nullptr && node.subgraphs.empty() && !def->traits.has_effects &&
        def->traits.comm == CommKind::kNone) {
      continue;
    }
    if (last >= 0) order.edges.push_back({last, index});
    last = index;
  }
  return order;
}

// Each operation whose results take no bytes runs as soon as it may, the others as given.
std::vector<int32_t> EagerOrder(const BudgetProblem& problem, const ScheduleProblem& order) {
  const size_t num_ops = problem.ops.size();
  std::vector<std::vector<int32_t>> after(num_ops);
  std::vector<int32_t> awaited(num_ops, 0);
  const auto add = [&](int32_t before, int32_t later) {
    after[before].push_back(later);
    ++awaited[later];
  };
  for (const ScheduleResult& result : order.results) {
    if (result.producer < 0) continue;
    for (const int32_t reader : result.readers) add(result.producer, reader);
  }
  for (const TaskEdge& edge : order.edges) add(edge.before, edge.after);
  const auto is_eager = [&](int32_t o) {
    return !problem.ops[o].writes.empty() &&
           std::ranges::all_of(problem.ops[o].writes, [&](int32_t write) {
             return problem.tensors[write].size_bytes == 0 &&
                    (problem.tensors[write].is_kept || problem.tensors[write].view_of >= 0);
           });
  };
  std::vector<int32_t> result, ready;
  std::vector<uint8_t> has_run(num_ops, 0);
  const auto run = [&](int32_t first) {
    ready.assign(1, first);
    while (!ready.empty()) {
      const int32_t o = ready.back();
      ready.pop_back();
      has_run[o] = 1;
      result.push_back(o);
      for (const int32_t later : after[o]) {
        if (--awaited[later] == 0 && has_run[later] == 0 && is_eager(later)) ready.push_back(later);
      }
    }
  };
  for (size_t o = 0; o < num_ops; ++o) {
    if (has_run[o] == 0) run(static_cast<int32_t>(o));
  }
  return result;
}

}  // namespace

GraphProblem BudgetProblemOf(const Graph& graph, std::span<const NodeCost> costs) {
  return BudgetProblemMaker(graph, costs).Make();
}

std::string_view BudgetOrderName(BudgetOrder order) {
  switch (order) {
    case BudgetOrder::kGiven:
      return "as given";
    case BudgetOrder::kEagerUpdates:
      return "updates early";
    case BudgetOrder::kLeastLive:
      return "least live";
  }
  return "";
}

std::vector<NodeId> OrderNodes(const Graph& graph, const GraphProblem& problem, BudgetOrder order) {
  std::vector<int32_t> ops(problem.problem.ops.size());
  for (size_t o = 0; o < ops.size(); ++o) ops[o] = static_cast<int32_t>(o);
  if (order != BudgetOrder::kGiven) {
    const ScheduleProblem ordering = OrderingProblem(graph, problem);
    ops = order == BudgetOrder::kEagerUpdates ? EagerOrder(problem.problem, ordering)
                                              : OrderForMemory(ordering).order;
  }
  std::vector<uint8_t> is_op(graph.nodes.size(), 0);
  for (const NodeId id : problem.node_of_op) is_op[id.index] = 1;
  std::vector<NodeId> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (is_op[n] == 0) nodes.push_back(NodeId(n));
  }
  for (const int32_t o : ops) nodes.push_back(problem.node_of_op[o]);
  return nodes;
}

}  // namespace millrace
