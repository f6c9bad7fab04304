// One mesh axis after another, in the mesh's order: what an axis finds is the graph of one device
// as the axes before it have cut it, so a rule only ever has to be right for one axis. Along an
// axis, nodes are visited in order. A node none of whose operands is cut (or partial) along the
// axis is replicated: without a hint nothing is cut. Else each rule that its op offers, and
// replication, is priced: bringing the operands into the form it asks for, its work on the parts,
// and summing up what it leaves partial (which somebody will have to pay for; later is no cheaper).
// Rules that take what is cut as it is go before those that move it, whose price does not tell what
// moving it back will take; then the cheapest wins; among equals the one that leaves nothing
// partial, then the first.
//
// Params that have no hint and have not been read yet cost nothing in any form: the first reader
// decides; but along `data` they are whole. Constants are as each reader wants them. What a step
// writes back must come out as the param is: the rules of a node that gives a param its new value
// are only those that do so. ZeRO turns this around for nodes that update a trainable param which
// is whole on all devices: they must leave it cut, and what it costs to put it together again is
// accepted. The optimizer's state, which nobody else reads, follows.
#include "passes/parallel/propagate_shardings.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "graph/strings.h"
#include "ops/known_values.h"
#include "passes/parallel/local_node.h"

namespace millrace {
namespace {

using Kind = AxisSharding::Kind;

constexpr std::string_view kDataAxis = "data";
// Rates that work is weighed against links with: those of a core. Only ratios matter.
constexpr double kFlopsPerUs = 5e4;
constexpr double kBytesPerUs = 1e4;

struct PricedRule {
  ShardingRule rule;
  double time_us = 0;
  bool moves = false;  // operands that are cut or partial have to become something else first
  bool leaves_partial = false;
};

bool IsBetter(const PricedRule& a, const PricedRule& b) {
  return std::tuple(a.moves, a.time_us, a.leaves_partial) <
         std::tuple(b.moves, b.time_us, b.leaves_partial);
}

class Propagation {
 public:
  Propagation(const Graph& graph, const PropagateOptions& options,
              std::vector<RewriteRecord>& records)
      : graph_(graph), options_(options), records_(records), known_(graph) {
    choice_.mesh = graph.mesh;
    choice_.rules.resize(graph.nodes.size());
    for (const Value& value : graph.values) types_.push_back(value.type);
    update_of_.assign(graph.values.size(), ValueId());
    for (const Update& update : graph.updates) update_of_[update.value.index] = update.param;
  }

  absl::StatusOr<ShardingChoice> Run() {
    for (ValueId id : graph_.inputs) choice_.leaves[id] = ReplicatedOn(graph_.mesh);
    for (ValueId id : graph_.params) choice_.leaves[id] = ReplicatedOn(graph_.mesh);
    for (size_t axis = 0; axis < graph_.mesh.axes.size(); ++axis) {
      axis_ = axis;
      MILLRACE_RETURN_IF_ERROR(TakeHints());
      for (size_t n = 0; n < graph_.nodes.size(); ++n) VisitNode(NodeId(n));
      EndAxis();
    }
    return std::move(choice_);
  }

 private:
  const MeshAxis& axis() const { return graph_.mesh.axes[axis_]; }

  // --- What is known at the start ---
  absl::Status TakeHints() {
    along_.assign(graph_.values.size(), std::nullopt);
    hint_.assign(graph_.values.size(), std::nullopt);
    prices_.clear();
    for (const auto& [id, sharding] : graph_.shardings) {
      MILLRACE_RETURN_IF_ERROR(TakeHint(id, sharding.axes[axis_]));
    }
    for (ValueId id : graph_.inputs) {
      if (along_[id.index].has_value()) continue;
      MILLRACE_ASSIGN_OR_RETURN(along_[id.index], DefaultOfInput(id));
    }
    if (axis().name == kDataAxis) KeepParamsWhole();
    return absl::OkStatus();
  }

  // That is what spreading data means. What steps carry over besides (states of optimizers, running
  // statistics) is as its only reader wants it.
  void KeepParamsWhole() {
    std::vector<uint8_t> is_updated(graph_.values.size(), 0);
    for (const Update& update : graph_.updates) is_updated[update.param.index] = 1;
    for (ValueId id : graph_.params) {
      if (!IsOpen(id) || (is_updated[id.index] != 0 && !graph_.value(id).trainable)) continue;
      along_[id.index] = AxisSharding();
    }
  }

  absl::Status TakeHint(ValueId id, const AxisSharding& along) {
    const Value& value = graph_.value(id);
    const bool is_leaf = value.kind != ValueKind::kResult;
    if (along.kind == Kind::kPartial && is_leaf) {
      return UsageError(StrCat("'", value.name, "' cannot be partial along mesh axis '",
                               axis().name, "': nobody has computed it"));
    }
    if (along.kind == Kind::kShard) {
      MILLRACE_RETURN_IF_ERROR(CheckCut(id, along.dim, "it is asked to be"));
    }
    hint_[id.index] = along;
    if (is_leaf && value.kind != ValueKind::kConstant) along_[id.index] = along;
    return absl::OkStatus();
  }

  absl::Status CheckCut(ValueId id, int dim, std::string_view why) const {
    const Value& value = graph_.value(id);
    const Shape& shape = types_[id.index].shape;
    if (dim >= shape.rank()) {
      return UsageError(StrCat("'", value.name, "' cannot be cut along dim ", dim, ", as ", why,
                               ": it is ", ToString(value.type)));
    }
    const int64_t size = shape[dim], parts = axis().size;
    if (size != 0 && size % parts == 0 && !value.bounded) return absl::OkStatus();
    return UsageError(StrCat("dim ", dim, " of '", value.name, "' (", ToString(value.type),
                             ") cannot be cut in ", parts, " equal parts along mesh axis '",
                             axis().name, "', as ", why, "; its size there is ", size,
                             value.bounded ? " at most" : "", ", and would have to be ",
                             std::max<int64_t>(1, (size + parts - 1) / parts) * parts));
  }

  absl::StatusOr<AxisSharding> DefaultOfInput(ValueId id) const {
    const Shape& shape = types_[id.index].shape;
    if (axis().name != kDataAxis || shape.rank() == 0 || shape[0] == 1) return AxisSharding();
    MILLRACE_RETURN_IF_ERROR(
        CheckCut(id, 0, "inputs are by default (give it another with --shard)"));
    return AxisSharding{Kind::kShard, 0};
  }

  // --- Nodes ---
  void VisitNode(NodeId id) {
    const Node& node = graph_.node(id);
    const PricedRule best = BestRule(id);
    choice_.rules[id.index].push_back(best.rule);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || !IsOpen(node.inputs[i])) continue;
      if (graph_.value(node.inputs[i]).kind == ValueKind::kConstant) continue;
      along_[node.inputs[i].index] = Along(best.rule.inputs, i);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (!out.valid()) continue;
      along_[out.index] = Along(best.rule.outputs, i);
      if (hint_[out.index].has_value()) Become(out, *hint_[out.index]);
    }
    // ZeRO 1: gradients are whole before they are cut.
    if (options_.zero == 1 && axis().name == kDataAxis && UpdatesWholeParam(node)) {
      for (const ValueId in : node.inputs) {
        if (in.valid() && along_[in.index].has_value() &&
            along_[in.index]->kind == Kind::kPartial) {
          Become(in, {});
        }
      }
    }
  }

  static AxisSharding Along(const std::vector<AxisSharding>& operands, size_t i) {
    return i < operands.size() ? operands[i] : AxisSharding();
  }

  // The result turns into that right after it came to be.
  void Become(ValueId id, const AxisSharding& along) {
    if (along_[id.index] == along) return;
    along_[id.index] = along;
    becomes_[id].resize(graph_.mesh.axes.size());
    becomes_[id][axis_] = along;
  }

  // Nothing decides yet what it is.
  bool IsOpen(ValueId id) const { return !along_[id.index].has_value(); }

  bool IsCutOrPartial(ValueId id) const {
    return id.valid() && along_[id.index].has_value() && along_[id.index]->kind != Kind::kReplicate;
  }

  // Something about the node asks for more than replication.
  bool IsTouched(const Node& node) const {
    if (std::ranges::any_of(node.inputs, [&](ValueId id) { return IsCutOrPartial(id); })) {
      return true;
    }
    return std::ranges::any_of(node.outputs, [&](ValueId id) {
      return id.valid() &&
             ((hint_[id.index].has_value() && hint_[id.index]->kind != Kind::kReplicate) ||
              (update_of_[id.index].valid() && IsCutOrPartial(update_of_[id.index])));
    });
  }

  // It gives a trainable param that it reads, and that is whole everywhere, its new value.
  bool UpdatesWholeParam(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId out) {
      const ValueId param = out.valid() ? update_of_[out.index] : ValueId();
      return param.valid() && graph_.value(param).trainable && !IsOpen(param) &&
             !IsCutOrPartial(param) && std::ranges::find(node.inputs, param) != node.inputs.end();
    });
  }

  bool ZeroApplies(const Node& node) const {
    return options_.zero > 0 && axis().name == kDataAxis && UpdatesWholeParam(node);
  }

  PricedRule BestRule(NodeId id) {
    const Node& node = graph_.node(id);
    const bool zero = ZeroApplies(node);
    NodeQuery query = QueryFor(graph_, id);
    for (size_t before = 0; before < axis_; ++before) {
      query = *CutQuery(query, choice_.rules[id.index][before], graph_.mesh.axes[before].size);
    }
    PricedRule best;
    best.time_us = Price(node, query, best.rule);
    best.moves = Moves(node, best.rule);
    if (!zero && !IsTouched(node)) return best;
    if (HasUnknownSize(node)) return Replicated(node, best, "its sizes are known only at run time");
    const bool sums = !zero && OnlyPartial(node);
    bool found = false;
    for (const ShardingRule& rule : ShardingRulesOf(query)) {
      if (!IsAllowed(node, rule, zero) || NeedsPartialLeaf(node, rule)) continue;
      if (sums && Cuts(rule)) continue;
      const std::optional<NodeQuery> cut = CutQuery(query, rule, axis().size);
      if (!cut.has_value() || !GivesItsParts(graph_, node, *cut, known_)) continue;
      PricedRule priced{rule, Price(node, *cut, rule), Moves(node, rule), LeavesPartial(rule)};
      if (!(priced.time_us < kUnreachable)) continue;
      if ((zero && !found) || IsBetter(priced, best)) best = std::move(priced);
      found = true;
    }
    if (found || sums) return best;
    return Replicated(node, best,
                      zero ? "no dim of the optimizer's state is cut evenly"
                           : "no rule of its op fits the cut of its operands");
  }

  PricedRule Replicated(const Node& node, PricedRule rule, std::string_view why) {
    records_.push_back({"shard",
                        "replicate",
                        {node.name},
                        StrCat("along ", axis().name, ", all of it on each device: ", why),
                        false});
    return rule;
  }

  bool HasUnknownSize(const Node& node) const {
    const auto bounded = [&](ValueId id) { return id.valid() && graph_.value(id).bounded; };
    return std::ranges::any_of(node.inputs, bounded) || std::ranges::any_of(node.outputs, bounded);
  }

  bool Moves(const Node& node, const ShardingRule& rule) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!IsCutOrPartial(in) || StatesShape(graph_, node, i)) continue;
      if (*along_[in.index] != Along(rule.inputs, i)) return true;
    }
    return false;
  }

  // Nobody has computed what a graph is given.
  bool NeedsPartialLeaf(const Node& node, const ShardingRule& rule) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid() || !IsOpen(node.inputs[i])) continue;
      if (Along(rule.inputs, i).kind == Kind::kPartial) return true;
    }
    return false;
  }

  // Operands are partial, none is cut, and nobody asks for a cut result. Then sums are whole, as
  // what they are added to is: a device that went on with a part would soon need the others'.
  bool OnlyPartial(const Node& node) const {
    const auto is_cut = [&](ValueId id) {
      return IsCutOrPartial(id) && along_[id.index]->kind == Kind::kShard;
    };
    if (std::ranges::any_of(node.inputs, is_cut)) return false;
    return std::ranges::none_of(node.outputs, [&](ValueId out) {
      if (!out.valid()) return false;
      const auto& hint = hint_[out.index];
      return (hint.has_value() && hint->kind == Kind::kShard) || is_cut(update_of_[out.index]);
    });
  }

  static bool Cuts(const ShardingRule& rule) {
    const auto is_cut = [](const AxisSharding& a) { return a.kind == Kind::kShard; };
    return std::ranges::any_of(rule.outputs, is_cut) || std::ranges::any_of(rule.inputs, is_cut);
  }

  static bool LeavesPartial(const ShardingRule& rule) {
    return std::ranges::any_of(rule.outputs,
                               [](const AxisSharding& o) { return o.kind == Kind::kPartial; });
  }

  // New values of params come out as the params are; with ZeRO, cut.
  bool IsAllowed(const Node& node, const ShardingRule& rule, bool zero) const {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      const ValueId param = out.valid() ? update_of_[out.index] : ValueId();
      if (!param.valid()) continue;
      const AxisSharding along = Along(rule.outputs, i);
      if (along.kind == Kind::kPartial) return false;
      if (zero) {
        if (along.kind != Kind::kShard) return false;
      } else if (!IsOpen(param) && along != *along_[param.index]) {
        return false;
      }
    }
    return true;
  }

  // --- Prices ---
  static constexpr double kUnreachable = 1e30;

  double Price(const Node& node, const NodeQuery& cut, const ShardingRule& rule) {
    const Work work = WorkOf(cut);
    double time_us = std::max(work.flops / kFlopsPerUs, work.bytes / kBytesPerUs);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!in.valid() || IsOpen(in)) continue;
      if (StatesShape(graph_, node, i)) continue;  // restated
      time_us += ReshardPrice(in, *along_[in.index], Along(rule.inputs, i));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId out = node.outputs[i];
      if (!out.valid()) continue;
      const AxisSharding given = Along(rule.outputs, i);
      AxisSharding wanted = given;
      if (given.kind == Kind::kPartial) wanted = AxisSharding();
      if (hint_[out.index].has_value()) wanted = *hint_[out.index];
      const ValueId param = update_of_[out.index];
      if (param.valid() && !IsOpen(param)) wanted = *along_[param.index];
      time_us += ReshardPrice(out, given, wanted);
    }
    return time_us;
  }

  double ReshardPrice(ValueId id, const AxisSharding& from, const AxisSharding& to) {
    if (from == to) return 0;
    const TensorType& type = types_[id.index];
    const auto dims = type.shape.dims();
    const auto number = [](const AxisSharding& a) {
      return static_cast<int>(a.kind) * 100 + a.dim * 10 + static_cast<int>(a.reduction);
    };
    const auto key = std::tuple(std::vector<int64_t>(dims.begin(), dims.end()),
                                static_cast<int>(type.dtype), number(from), number(to));
    const auto [it, is_new] = prices_.try_emplace(key, kUnreachable);
    if (is_new) {
      Sharding before = ReplicatedOn(graph_.mesh), after = before;
      before.axes[axis_] = from;
      after.axes[axis_] = to;
      const auto plan = PlanReshard(type, before, after, graph_.mesh, options_.links);
      if (plan.has_value()) it->second = plan->seconds * 1e6;
    }
    return it->second;
  }

  // --- The end of an axis ---
  void EndAxis() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const ValueId id(v);
      const AxisSharding along = along_[v].value_or(AxisSharding());
      const auto leaf = choice_.leaves.find(id);
      if (leaf != choice_.leaves.end()) leaf->second.axes[axis_] = along;
      all_[id].push_back(along);
      if (along.kind == Kind::kShard) types_[v].shape[along.dim] /= axis().size;
    }
    if (axis_ + 1 < graph_.mesh.axes.size()) return;
    for (const auto& [id, axes] : becomes_) {
      // Along the other axes it stays what its node gives.
      const Value& value = graph_.value(id);
      Sharding sharding =
          OutputSharding(choice_, value.producer, static_cast<size_t>(value.result_index));
      for (size_t axis = 0; axis < axes.size(); ++axis) {
        if (axes[axis].has_value()) sharding.axes[axis] = *axes[axis];
      }
      choice_.results[id] = std::move(sharding);
    }
    for (ValueId id : graph_.outputs) {
      Sharding sharding{all_.at(id)};
      for (AxisSharding& along : sharding.axes) {
        if (along.kind == Kind::kPartial) along = AxisSharding();
      }
      choice_.outputs[id] = std::move(sharding);
    }
  }

  const Graph& graph_;
  const PropagateOptions& options_;
  std::vector<RewriteRecord>& records_;
  KnownValues known_;
  ShardingChoice choice_;
  size_t axis_ = 0;
  std::vector<TensorType> types_;   // as the axes before this one leave them
  std::vector<ValueId> update_of_;  // by value: the param it is the new value of
  std::vector<std::optional<AxisSharding>> along_, hint_;  // by value, along this axis
  std::map<ValueId, std::vector<std::optional<AxisSharding>>> becomes_;
  std::map<ValueId, std::vector<AxisSharding>> all_;  // by axis so far
  std::map<std::tuple<std::vector<int64_t>, int, int, int>, double> prices_;
};

}  // namespace

absl::StatusOr<ShardingChoice> PropagateShardings(const Graph& graph,
                                                  const PropagateOptions& options,
                                                  std::vector<RewriteRecord>& records) {
  if (options.zero != 0 && graph.mesh.FindAxis(kDataAxis) < 0) {
    return UsageError(StrCat("ZeRO cuts the optimizer's state over the mesh axis '", kDataAxis,
                             "', but the mesh is ", ToString(graph.mesh)));
  }
  return Propagation(graph, options, records).Run();
}

}  // namespace millrace
