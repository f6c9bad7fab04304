// A StrategyProblem (strategy_problem.h) of a cell: a node's strategies are its sharding rules
// whose dims the tensor axis divides, and doing all of it on every device; an edge costs what it
// takes to bring a value from the form it is made in to the form it is used in.
//
// A form says how the value lies, and how its gradient does, for the way back costs as much as the
// way there. A node that is cut, with an operand that is not, has a part of that operand's gradient
// on each device: a sum that somebody must make. Where a value has several readers, a node of its
// own stands for "as they use it", so that readers whose gradients are such sums share one
// reduction. This finds both Megatron's layers (an all-reduce in every branch, each way) and their
// form with sequences cut between branches (reduce-scatter and all-gather).
//
// Times are rooflines (passes/cost_model.h). Elementwise nodes are taken as fused with what makes
// their operands: they write, and read nothing; views cost nothing.
#include "passes/parallel/auto_cell.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "graph/strings.h"
#include "graph/target.h"
#include "ops/op_def.h"
#include "ops/sharding.h"
#include "passes/cost_model.h"
#include "passes/parallel/strategy_solver.h"

namespace millrace {
namespace {

using Kind = AxisSharding::Kind;

constexpr double kPicoseconds = 1e12;
// A step of Adam reads gradient, weight, both moments and writes all but the gradient, in f32.
constexpr double kAdamBytes = 28;

struct ValueForm {
  AxisSharding value, grad;
};

struct CellStrategy {
  std::string note;
  double forward = 0, backward = 0;  // seconds a microbatch
  double update = 0, summing = 0;    // seconds a step: the optimizer, and gradients over the axis
  double summed_bytes = 0;
  double parameters = 0, saved_bytes = 0, flops = 0;
  std::vector<ValueForm> inputs, outputs;  // by operand
};

struct ReshardCost {
  bool possible = true;
  double seconds = 0, bytes = 0;
};

// Where a form of a value is made or used: strategies of a solver node.
struct FormPort {
  int32_t node = -1;
  std::vector<ValueForm> forms;  // by strategy
};

class CellPlanner {
 public:
  CellPlanner(const Graph& graph, const PartitionModel& model, const PartitionCell& cell,
              const DevicePool& pool, const PartitionRegime& regime, const CellRequest& request)
      : graph_(graph),
        model_(model),
        cell_(cell),
        pool_(pool),
        regime_(regime),
        request_(request),
        tensor_(static_cast<double>(request.tensor)) {}

  absl::StatusOr<CellPlan> Plan() {
    AddNodes();
    AddValues();
    MILLRACE_ASSIGN_OR_RETURN(const StrategySolution solution,
                              SolveStrategies(problem_, {.max_work = 20'000'000}));
    return Account(solution.choice);
  }

 private:
  // A microbatch's part of a value, in the precision that it is kept in.
  TensorType LocalType(ValueId value) const {
    TensorType type = graph_.value(value).type;
    const int32_t dim = model_.batch_dim[value.index];
    if (dim >= 0) type.shape[dim] = type.shape[dim] * request_.samples / model_.batch;
    if (type.dtype == DType::kF32) type.dtype = regime_.dtype;
    return type;
  }

  NodeQuery LocalQuery(NodeId id) const {
    NodeQuery query = QueryFor(graph_, id);
    const Node& node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid()) query.inputs[i] = LocalType(node.inputs[i]);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o].valid()) query.outputs[o] = LocalType(node.outputs[o]);
    }
    return query;
  }

  // False when the axis does not divide a dim that the rule cuts.
  bool Cut(const std::vector<AxisSharding>& shardings,
           std::vector<std::optional<TensorType>>& types) const {
    for (size_t i = 0; i < shardings.size() && i < types.size(); ++i) {
      if (shardings[i].kind != Kind::kShard || !types[i]) continue;
      int64_t& dim = types[i]->shape[shardings[i].dim];
      if (dim % request_.tensor != 0) return false;
      dim /= request_.tensor;
    }
    return true;
  }

  bool IsParam(ValueId value) const { return graph_.value(value).kind == ValueKind::kParam; }
  bool IsActivation(ValueId value) const {
    return value.valid() && model_.learned[value.index] && !IsParam(value);
  }

  double ForwardSeconds(const NodeQuery& query, const OpDef& op, const Work& work) const {
    double bytes = work.bytes;
    if (op.traits.view == ViewKind::kWhole) return 0;
    if (op.fusion == FusionClass::kElementwise) {
      bytes = 0;
      for (const auto& output : query.outputs) {
        if (output) bytes += static_cast<double>(ByteSize(*output));
      }
    }
    const DeviceSpec& device = *pool_.first.spec;
    const Roofline roofline = RooflineOf(query, work.flops, bytes, device.threads, device);
    const bool own_kernel = op.fusion != FusionClass::kElementwise;
    return 1e-6 * (std::max(roofline.compute_us, roofline.memory_us) / regime_.efficiency +
                   (own_kernel ? device.launch_overhead_us : 0));
  }

  // Without a rule: the whole node on every device.
  std::optional<CellStrategy> MakeStrategy(NodeId id, const NodeQuery& query, const OpDef& op,
                                           const ShardingRule& rule, bool cuts) const {
    const Node& node = graph_.node(id);
    CellStrategy strategy;
    if (cuts) strategy.note = rule.note;
    NodeQuery local = query;
    if (!Cut(rule.inputs, local.inputs) || !Cut(rule.outputs, local.outputs)) return std::nullopt;
    const Work work = WorkOf(local);
    strategy.forward = ForwardSeconds(local, op, work);
    strategy.flops = work.flops;
    int learned = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const AxisSharding in = rule.inputs[i];
      ValueForm form{in, in};
      if (in.kind == Kind::kReplicate && cuts) form.grad = Partial(Reduction::kSum);
      if (in.kind == Kind::kPartial) form.grad = Replicate();
      strategy.inputs.push_back(form);
      const ValueId input = node.inputs[i];
      if (!input.valid() || !model_.learned[input.index]) continue;
      ++learned;
      if (!IsParam(input)) continue;
      if (in.kind == Kind::kPartial) return std::nullopt;
      AddParam(*local.inputs[i], in.kind == Kind::kReplicate && cuts, strategy);
    }
    if (regime_.training) {
      strategy.backward = strategy.forward * (op.fusion == FusionClass::kContraction ? learned : 1);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const AxisSharding out = rule.outputs[o];
      strategy.outputs.push_back({out, out.kind == Kind::kShard ? out : Replicate()});
      if (node.outputs[o].valid() && IsSaved(op, node.outputs[o])) {
        strategy.saved_bytes += static_cast<double>(ByteSize(*local.outputs[o]));
      }
    }
    return strategy;
  }

  void AddParam(const TensorType& type, bool summed, CellStrategy& strategy) const {
    const double elements = static_cast<double>(NumElements(type.shape));
    strategy.parameters += elements;
    if (!regime_.training) return;
    strategy.update += elements * kAdamBytes / pool_.first.spec->memory_bandwidth;
    if (summed) {
      const double bytes = static_cast<double>(ByteSize(type));
      strategy.summing +=
          AxisCollectiveSeconds(pool_, {request_.tensor, 1}, CommKind::kAllReduce, bytes);
      strategy.summed_bytes += 2 * (tensor_ - 1) / tensor_ * bytes;
    }
  }

  // What backward reads: results of products and reductions, and operands of products.
  bool IsSaved(const OpDef& op, ValueId output) const {
    if (op.fusion == FusionClass::kContraction || op.fusion == FusionClass::kReduction) return true;
    if (op.fusion != FusionClass::kElementwise) return false;
    for (const NodeId id : cell_.nodes) {
      const Node& node = graph_.node(id);
      const OpDef* reader = FindOp(node.op);
      if (reader->fusion == FusionClass::kContraction &&
          std::find(node.inputs.begin(), node.inputs.end(), output) != node.inputs.end()) {
        return true;
      }
    }
    return false;
  }

  int64_t Cost(double seconds) const {
    return static_cast<int64_t>(std::llround(std::min(seconds * kPicoseconds, 1e15)));
  }

  void AddNodes() {
    for (const NodeId id : cell_.nodes) {
      const NodeQuery query = LocalQuery(id);
      const OpDef& op = *FindOp(query.op);
      std::vector<CellStrategy> strategies;
      const auto add = [&](const ShardingRule& rule, bool cuts) {
        if (auto strategy = MakeStrategy(id, query, op, rule, cuts)) {
          strategies.push_back(*std::move(strategy));
        }
      };
      add(ReplicateAll(query, ""), false);
      if (request_.tensor > 1) {
        for (const ShardingRule& rule : ShardingRulesOf(query)) add(rule, true);
      }
      StrategyNode node;
      for (const CellStrategy& s : strategies) {
        const double once = (s.update + s.summing) / request_.microbatches;
        const double bytes = request_.small ? s.parameters * 1e-6 : 0;
        node.costs.push_back(Cost(s.forward + s.backward + once + bytes));
        node.usages.push_back(0);
      }
      problem_.nodes.push_back(std::move(node));
      strategies_.push_back(std::move(strategies));
    }
  }

  FormPort FixedPort(const ValueForm& form) {
    problem_.nodes.push_back({{0}, {0}, 0, 0});
    return {static_cast<int32_t>(problem_.nodes.size()) - 1, {form}};
  }

  ReshardCost Reshard(ValueId value, const AxisSharding& from, const AxisSharding& to) const {
    if (from == to || from.kind == Kind::kReplicate) return {};
    if (to.kind == Kind::kPartial) return {.possible = from.kind == Kind::kPartial};
    const double bytes = static_cast<double>(ByteSize(LocalType(value)));
    const double rest = (tensor_ - 1) / tensor_;
    const auto cost = [&](CommKind kind, double input, double sent) {
      return ReshardCost{true, AxisCollectiveSeconds(pool_, {request_.tensor, 1}, kind, input),
                         sent};
    };
    if (from.kind == Kind::kPartial) {
      return to.kind == Kind::kShard ? cost(CommKind::kReduceScatter, bytes, rest * bytes)
                                     : cost(CommKind::kAllReduce, bytes, 2 * rest * bytes);
    }
    return to.kind == Kind::kShard
               ? cost(CommKind::kAllToAll, bytes / tensor_, rest * bytes / tensor_)
               : cost(CommKind::kAllGather, bytes / tensor_, rest * bytes);
  }

  // There and back.
  std::pair<ReshardCost, ReshardCost> BothWays(ValueId value, const ValueForm& made,
                                               const ValueForm& used) const {
    return {Reshard(value, made.value, used.value),
            regime_.training ? Reshard(value, used.grad, made.grad) : ReshardCost{}};
  }

  void Join(ValueId value, const FormPort& made, const FormPort& used) {
    StrategyEdge edge = {made.node, used.node, {}};
    for (const ValueForm& a : made.forms) {
      for (const ValueForm& b : used.forms) {
        const auto [there, back] = BothWays(value, a, b);
        const bool possible = there.possible && back.possible;
        edge.costs.push_back(possible ? Cost(there.seconds + back.seconds) : kForbiddenCost);
      }
    }
    problem_.edges.push_back(std::move(edge));
    links_.push_back({value, made, used});
  }

  // "As they use it" of a value with several readers.
  FormPort SharedPort(ValueId value) {
    FormPort port;
    port.forms = {{Replicate(), Replicate()}, {Replicate(), Partial(Reduction::kSum)}};
    const Shape shape = LocalType(value).shape;
    for (int d = 0; d < shape.rank(); ++d) {
      if (request_.tensor > 1 && shape[d] % request_.tensor == 0) {
        port.forms.push_back({ShardDim(d), ShardDim(d)});
      }
    }
    port.node = static_cast<int32_t>(problem_.nodes.size());
    problem_.nodes.push_back(
        {std::vector<int64_t>(port.forms.size(), 0), std::vector<int64_t>(port.forms.size(), 0)});
    return port;
  }

  void AddValues() {
    std::map<int32_t, FormPort> makers;                // by value
    std::map<int32_t, std::vector<FormPort>> readers;  // by value
    const ValueForm boundary{request_.boundary, request_.boundary};
    if (cell_.input.valid()) makers[cell_.input.index] = FixedPort(boundary);
    for (size_t n = 0; n < cell_.nodes.size(); ++n) {
      const Node& node = graph_.node(cell_.nodes[n]);
      const auto port = [&](bool input, size_t operand) {
        FormPort result{static_cast<int32_t>(n), {}};
        for (const CellStrategy& s : strategies_[n]) {
          result.forms.push_back(input ? s.inputs[operand] : s.outputs[operand]);
        }
        return result;
      };
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (IsActivation(node.inputs[i])) readers[node.inputs[i].index].push_back(port(true, i));
      }
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        if (IsActivation(node.outputs[o])) makers[node.outputs[o].index] = port(false, o);
      }
    }
    if (cell_.output.valid()) readers[cell_.output.index].push_back(FixedPort(boundary));
    for (const auto& [index, uses] : readers) {
      const ValueId value(index);
      FormPort made = makers.at(index);
      if (uses.size() > 1) {
        const FormPort shared = SharedPort(value);
        Join(value, made, shared);
        made = shared;
      }
      for (const FormPort& use : uses) {
        if (use.node != made.node) Join(value, made, use);
      }
    }
  }

  CellPlan Account(const std::vector<int32_t>& choice) const {
    CellPlan plan;
    for (size_t n = 0; n < cell_.nodes.size(); ++n) {
      const CellStrategy& s = strategies_[n][choice[n]];
      plan.forward += s.forward;
      plan.backward += s.backward;
      plan.parameters += s.parameters;
      plan.saved_bytes += s.saved_bytes;
      plan.flops += s.flops;
      plan.tensor_once += s.summing;
      plan.tensor_once_bytes += s.summed_bytes;
      plan.cuts.push_back({cell_.nodes[n], s.note});
      const std::vector<ValueId>& inputs = graph_.node(cell_.nodes[n]).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].valid() || !IsParam(inputs[i])) continue;
        plan.params.push_back(
            {static_cast<int32_t>(n), static_cast<int32_t>(i), s.inputs[i].value});
      }
    }
    for (const Link& link : links_) {
      const auto [there, back] = BothWays(link.value, link.made.forms[choice[link.made.node]],
                                          link.used.forms[choice[link.used.node]]);
      plan.tensor_forward += there.seconds;
      plan.tensor_backward += back.seconds;
      plan.tensor_bytes += there.bytes + back.bytes;
    }
    if (cell_.input.valid()) {
      plan.input_bytes = static_cast<double>(ByteSize(LocalType(cell_.input)));
      if (request_.boundary.kind == Kind::kShard) plan.input_bytes /= tensor_;
    }
    return plan;
  }

  struct Link {
    ValueId value;
    FormPort made, used;
  };

  const Graph& graph_;
  const PartitionModel& model_;
  const PartitionCell& cell_;
  const DevicePool& pool_;
  const PartitionRegime& regime_;
  const CellRequest& request_;
  const double tensor_;
  std::vector<std::vector<CellStrategy>> strategies_;  // by node of the cell
  StrategyProblem problem_;                            // nodes of the cell first
  std::vector<Link> links_;
};

}  // namespace

absl::StatusOr<CellPlan> PlanCell(const Graph& graph, const PartitionModel& model,
                                  const PartitionCell& cell, const DevicePool& pool,
                                  const PartitionRegime& regime, const CellRequest& request) {
  return CellPlanner(graph, model, cell, pool, regime, request).Plan();
}

}  // namespace millrace
